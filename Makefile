# Short names for the scripts, which work without make too.
.PHONY: demo test test-asan test-tsan test-wheel test-faults bench format lint setup build clean

demo test test-asan test-tsan test-wheel test-faults bench format lint setup build:
	@scripts/$@

clean:
	rm -rf build
