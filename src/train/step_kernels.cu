// What a training step computes per element, each in one pass: the kernels of CUDA devices.
//
// NVRTC compiles this file for the GPU that is there, and the tests compile it as C++, where a
// kernel is a loop. Every operation is one correctly rounded operation: so a GPU and the tests
// compute the same bits. Updates and sums are in the order of optim/adamw.h, and agree with the
// host's kernel and the tensor operations of device_update.cc; what blocks use is in the order of
// torch's operations (model/fused.h). Indices are 64 bits: an embedding has more elements than 32
// bits count.

/// Threads of a block: KernelLibrary::kBlockThreads. Where a block shares a row, each of its threads
/// is a turn of a loop in C++.
#define FERRY_BLOCK 256

#ifdef __CUDACC__
#define FERRY_KERNEL extern "C" __global__ void
#define FERRY_FUNCTION __device__ inline
FERRY_FUNCTION long long first_index() {
  return blockIdx.x * (long long)blockDim.x + threadIdx.x;
}
FERRY_FUNCTION long long stride() { return gridDim.x * (long long)blockDim.x; }
#define FERRY_SHARED __shared__
FERRY_FUNCTION long long first_row() { return blockIdx.x; }
FERRY_FUNCTION long long row_stride() { return gridDim.x; }
FERRY_FUNCTION int first_thread() { return threadIdx.x; }
FERRY_FUNCTION int thread_stride() { return FERRY_BLOCK; }
FERRY_FUNCTION void wait_for_block() { __syncthreads(); }
FERRY_FUNCTION float plus(float a, float b) { return __fadd_rn(a, b); }
FERRY_FUNCTION float minus(float a, float b) { return __fsub_rn(a, b); }
FERRY_FUNCTION float times(float a, float b) { return __fmul_rn(a, b); }
FERRY_FUNCTION float over(float a, float b) { return __fdiv_rn(a, b); }
FERRY_FUNCTION float root(float a) { return __fsqrt_rn(a); }
FERRY_FUNCTION double plus(double a, double b) { return __dadd_rn(a, b); }
FERRY_FUNCTION double times(double a, double b) { return __dmul_rn(a, b); }
FERRY_FUNCTION float from_bits(unsigned bits) { return __uint_as_float(bits); }
FERRY_FUNCTION unsigned bits_of(float value) { return __float_as_uint(value); }
#else
#define FERRY_KERNEL inline void
#define FERRY_FUNCTION inline
FERRY_FUNCTION long long first_index() { return 0; }
FERRY_FUNCTION long long stride() { return 1; }
#define FERRY_SHARED
FERRY_FUNCTION long long first_row() { return 0; }
FERRY_FUNCTION long long row_stride() { return 1; }
FERRY_FUNCTION int first_thread() { return 0; }
FERRY_FUNCTION int thread_stride() { return 1; }
FERRY_FUNCTION void wait_for_block() {}
FERRY_FUNCTION float plus(float a, float b) { return a + b; }
FERRY_FUNCTION float minus(float a, float b) { return a - b; }
FERRY_FUNCTION float times(float a, float b) { return a * b; }
FERRY_FUNCTION float over(float a, float b) { return a / b; }
FERRY_FUNCTION float root(float a) { return __builtin_sqrtf(a); }
FERRY_FUNCTION double plus(double a, double b) { return a + b; }
FERRY_FUNCTION double times(double a, double b) { return a * b; }
FERRY_FUNCTION float from_bits(unsigned bits) { return __builtin_bit_cast(float, bits); }
FERRY_FUNCTION unsigned bits_of(float value) { return __builtin_bit_cast(unsigned, value); }
#endif

typedef unsigned short Half;  // 16 bits of a number: a bf16, or the low half of a master

FERRY_FUNCTION float bf16_value(Half bits) { return from_bits((unsigned)bits << 16); }

/// To nearest, ties to even; NaN stays NaN.
FERRY_FUNCTION float rounded_to_bf16(float value) {
  const unsigned bits = bits_of(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return from_bits(0x7fc00000U);
  return from_bits((bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U);
}

FERRY_FUNCTION Half bf16_of(float value) {
  return (Half)(bits_of(rounded_to_bf16(value)) >> 16);
}

/// One AdamW update of `numel` elements. The master is either hi and lo (optim/split.h) or
/// `weight`; the gradient fp32 or bf16; the other pointers are null. `rounds`: the gradient, to
/// bf16. `scale` may be null. The factors are those of AdamWFactors.
FERRY_KERNEL adamw(Half* hi, Half* lo, float* weight, float* m, float* v, const float* gradient,
                   const Half* gradient_bf16, int rounds, const float* scale, float keep,
                   float beta1, float one_minus_beta1, float beta2, float one_minus_beta2,
                   float inverse_root_bias2, float eps, float step_size, long long numel) {
  for (long long i = first_index(); i < numel; i += stride()) {
    float g = gradient ? gradient[i] : bf16_value(gradient_bf16[i]);
    if (rounds) g = rounded_to_bf16(g);
    if (scale) g = times(g, *scale);

    const float mean = plus(times(m[i], beta1), times(g, one_minus_beta1));
    const float square = plus(times(v[i], beta2), times(times(g, g), one_minus_beta2));
    m[i] = mean;
    v[i] = square;
    const float divisor = plus(times(root(square), inverse_root_bias2), eps);
    const float change = times(over(mean, divisor), step_size);

    // bits = (hi << 16) + int16(lo)
    const unsigned joined =
        weight ? 0U : ((unsigned)hi[i] << 16) + (unsigned)(int)(short)lo[i];
    const float master = weight ? weight[i] : from_bits(joined);
    const float updated = minus(times(master, keep), change);
    if (weight) {
      weight[i] = updated;
    } else {
      const unsigned bits = bits_of(updated);
      hi[i] = (Half)((bits + 0x8000U) >> 16);
      lo[i] = (Half)bits;
    }
  }
}

/// Eight bf16 numbers, read and written at once.
struct alignas(16) Eight {
  unsigned words[4];
};

FERRY_FUNCTION float number(const Eight& eight, int k) {
  return bf16_value((Half)(eight.words[k / 2] >> (16 * (k % 2))));
}

FERRY_FUNCTION Eight eight_of(const Half* numbers, long long i) {
  return ((const Eight*)numbers)[i];
}

FERRY_FUNCTION void set_eight(Half* numbers, long long i, const Eight& eight) {
  ((Eight*)numbers)[i] = eight;
}

/// Sets number k, of which the words have nothing yet, to the nearest bf16 number.
FERRY_FUNCTION void put(Eight& eight, int k, float value) {
  eight.words[k / 2] |= (unsigned)bf16_of(value) << (16 * (k % 2));
}

/// Four fp32 numbers, read and written at once.
struct alignas(16) Four {
  float numbers[4];
};

// Eight numbers at once where `whole`, which they are not at an array's end or in one that begins
// anywhere; else the first `count` one by one.

FERRY_FUNCTION void read(const float* from, bool whole, int count, float* numbers) {
  if (whole) {
    const Four first = ((const Four*)from)[0], second = ((const Four*)from)[1];
    for (int k = 0; k < 4; ++k) {
      numbers[k] = first.numbers[k];
      numbers[k + 4] = second.numbers[k];
    }
  } else {
    for (int k = 0; k < count; ++k) numbers[k] = from[k];
  }
}

FERRY_FUNCTION void read(const Half* from, bool whole, int count, float* numbers) {
  if (whole) {
    const Eight eight = eight_of(from, 0);
    for (int k = 0; k < 8; ++k) numbers[k] = number(eight, k);
  } else {
    for (int k = 0; k < count; ++k) numbers[k] = bf16_value(from[k]);
  }
}

FERRY_FUNCTION void write(float* to, bool whole, int count, const float* numbers) {
  if (whole) {
    Four first, second;
    for (int k = 0; k < 4; ++k) {
      first.numbers[k] = numbers[k];
      second.numbers[k] = numbers[k + 4];
    }
    ((Four*)to)[0] = first;
    ((Four*)to)[1] = second;
  } else {
    for (int k = 0; k < count; ++k) to[k] = numbers[k];
  }
}

FERRY_FUNCTION bool begins_whole(const void* numbers) {
  return (unsigned long long)numbers % 16 == 0;
}

/// Elements of which add_gradient makes one partial sum of squares, and partial sums of which
/// add_squares makes one.
#define FERRY_SQUARES 64

/// sum = sum + gradient, or the gradient itself unless `adds`; of no gradient at all the sum stays.
/// squares[j], unless null, becomes the sum of the squares of eights j, j + n, j + 2 n, ... of
/// elements, in this order, in fp64, n being numel / FERRY_SQUARES rounded up: neighbouring threads
/// read neighbouring eights, and the order depends on nothing but numel.
FERRY_KERNEL add_gradient(float* sum, const float* gradient, const Half* gradient_bf16, int adds,
                          double* squares, long long numel) {
  const bool has_gradient = gradient || gradient_bf16;
  const bool aligned = begins_whole(sum) && begins_whole(gradient) && begins_whole(gradient_bf16);
  const long long eights = (numel + 7) / 8;
  const long long columns = squares ? (numel + FERRY_SQUARES - 1) / FERRY_SQUARES : eights;
  for (long long j = first_index(); j < columns; j += stride()) {
    double total = 0;
    for (long long i = j; i < eights; i += columns) {
      const long long begin = 8 * i;
      const int count = numel - begin < 8 ? (int)(numel - begin) : 8;
      const bool whole = aligned && count == 8;
      float values[8] = {}, found[8] = {};
      if (adds || !has_gradient) read(sum + begin, whole, count, values);
      if (gradient) read(gradient + begin, whole, count, found);
      if (gradient_bf16) read(gradient_bf16 + begin, whole, count, found);
      if (has_gradient) {
        for (int k = 0; k < 8; ++k) values[k] = adds ? plus(values[k], found[k]) : found[k];
        write(sum + begin, whole, count, values);
      }
      for (int k = 0; k < count; ++k) {
        total = plus(total, times((double)values[k], (double)values[k]));
      }
    }
    if (squares) squares[j] = total;
  }
}

/// totals[j] = the sum of parts 64 j, 64 j + 1, ... 64 j + 63, in this order; added to what is
/// there if `adds`.
FERRY_KERNEL add_squares(const double* parts, double* totals, int adds, long long count) {
  const long long groups = (count + FERRY_SQUARES - 1) / FERRY_SQUARES;
  for (long long j = first_index(); j < groups; j += stride()) {
    const long long begin = j * FERRY_SQUARES;
    const long long end = begin + FERRY_SQUARES < count ? begin + FERRY_SQUARES : count;
    double total = 0;
    for (long long i = begin; i < end; ++i) total = plus(total, parts[i]);
    totals[j] = adds ? plus(totals[j], total) : total;
  }
}

/// e^x to the last bit or two, between the smallest and the largest normal numbers.
FERRY_FUNCTION float exponential(float x) {
  x = x < -87.0F ? -87.0F : x > 88.0F ? 88.0F : x;  // NaN stays
  const float turns = times(x, 1.44269504F);
  const int n = (int)plus(turns, turns < 0 ? -0.5F : 0.5F);
  // x - n ln 2, in two parts of which the first is exact
  const float r = minus(minus(x, times((float)n, 0.693359375F)), times((float)n, -2.12194440e-4F));
  float sum = 1.0F / 5040;
  sum = plus(times(sum, r), 1.0F / 720);
  sum = plus(times(sum, r), 1.0F / 120);
  sum = plus(times(sum, r), 1.0F / 24);
  sum = plus(times(sum, r), 1.0F / 6);
  sum = plus(times(sum, r), 0.5F);
  sum = plus(times(times(sum, r), r), plus(r, 1.0F));
  return times(sum, from_bits((unsigned)(n + 127) << 23));
}

/// y = silu(gate) * up, with silu rounded to bf16.
FERRY_KERNEL swiglu(const Half* gate, const Half* up, Half* y, long long eights) {
  for (long long i = first_index(); i < eights; i += stride()) {
    const Eight gates = eight_of(gate, i), ups = eight_of(up, i);
    Eight found = {};
    for (int k = 0; k < 8; ++k) {
      const float g = number(gates, k);
      const float silu = rounded_to_bf16(over(g, plus(1.0F, exponential(-g))));
      put(found, k, times(silu, number(ups, k)));
    }
    set_eight(y, i, found);
  }
}

/// The gradients of gate and up, by torch's formulas and with its roundings.
FERRY_KERNEL swiglu_backward(const Half* dy, const Half* gate, const Half* up, Half* dgate,
                             Half* dup, long long eights) {
  for (long long i = first_index(); i < eights; i += stride()) {
    const Eight dys = eight_of(dy, i), gates = eight_of(gate, i), ups = eight_of(up, i);
    Eight of_gate = {}, of_up = {};
    for (int k = 0; k < 8; ++k) {
      const float d = number(dys, k), g = number(gates, k);
      const float divisor = plus(1.0F, exponential(-g));
      const float sigmoid = over(1.0F, divisor);
      put(of_up, k, times(d, rounded_to_bf16(over(g, divisor))));
      const float dsilu = rounded_to_bf16(times(d, number(ups, k)));
      put(of_gate, k,
          times(times(dsilu, sigmoid), plus(1.0F, times(g, minus(1.0F, sigmoid)))));
    }
    set_eight(dgate, i, of_gate);
    set_eight(dup, i, of_up);
  }
}

/// Of every head of every token its halves a and b, of `groups` eights each, become a cos - b sin
/// and b cos + a sin, where `sign` is that of the sine. The table has a row for each of the
/// `length` tokens of a row. `count`: groups of all halves a, below 2^31.
FERRY_KERNEL rotate(const Half* x, const Half* cosine, const Half* sine, Half* y,
                    unsigned heads, unsigned groups, unsigned length, float sign,
                    long long count) {
  for (long long i = first_index(); i < count; i += stride()) {
    const unsigned head = (unsigned)i / groups, group = (unsigned)i % groups;
    const unsigned angle = head / heads % length * groups + group;
    const long long first = (long long)head * 2 * groups + group;
    const Eight as = eight_of(x, first), bs = eight_of(x, first + groups);
    const Eight cosines = eight_of(cosine, angle), sines = eight_of(sine, angle);
    Eight y_a = {}, y_b = {};
    for (int k = 0; k < 8; ++k) {
      const float a = number(as, k), b = number(bs, k), c = number(cosines, k);
      const float s = times(sign, number(sines, k));
      put(y_a, k, minus(rounded_to_bf16(times(a, c)), times(b, s)));
      put(y_b, k, plus(rounded_to_bf16(times(b, c)), times(a, s)));
    }
    set_eight(y, first, y_a);
    set_eight(y, first + groups, y_b);
  }
}

/// ln x of a finite x >= 1, to the last bit or two.
FERRY_FUNCTION float logarithm(float x) {
  if (x != x) return x;  // NaN stays
  // x = 2^n m, m from sqrt(1/2) to sqrt(2)
  const unsigned bits = bits_of(x) + (0x3f800000U - 0x3f3504f3U);
  const float n = (float)((int)(bits >> 23) - 127);
  const float m = from_bits((bits & 0x007fffffU) + 0x3f3504f3U);
  // ln m = 2 atanh(s)
  const float s = over(minus(m, 1.0F), plus(m, 1.0F)), square = times(s, s);
  float sum = 1.0F / 9;
  sum = plus(times(sum, square), 1.0F / 7);
  sum = plus(times(sum, square), 1.0F / 5);
  sum = plus(times(sum, square), 1.0F / 3);
  sum = plus(times(times(sum, square), s), s);
  return plus(times(n, 0.693147182F), times(sum, 2.0F));
}

FERRY_FUNCTION float greater(float a, float b) { return b > a ? b : a; }

/// What `combine` makes of the numbers of a block's threads, halves first; the numbers are lost.
template <float combine(float, float)>
FERRY_FUNCTION float of_block(float* numbers) {
  for (int half = FERRY_BLOCK / 2; half > 0; half /= 2) {
    wait_for_block();
    for (int t = first_thread(); t < half; t += thread_stride()) {
      numbers[t] = combine(numbers[t], numbers[t + half]);
    }
  }
  wait_for_block();
  const float found = numbers[0];
  wait_for_block();
  return found;
}

/// Of every row of `eights` eights of logits the cross-entropy with its label; 0 where that is
/// negative, which is not learned. If `differentiates`, the logits become the gradient of scale
/// times the cross-entropy: zeros where the scale is 0. A block shares a row.
FERRY_KERNEL cross_entropy(Half* logits, const long long* labels, int differentiates, float scale,
                           float* losses, long long eights, long long rows) {
  FERRY_SHARED float numbers[FERRY_BLOCK];
  for (long long row = first_row(); row < rows; row += row_stride()) {
    Half* const mine = logits + row * eights * 8;
    const long long label = labels[row];
    float greatest = 0, sum = 1;
    if (label >= 0) {
      for (int t = first_thread(); t < FERRY_BLOCK; t += thread_stride()) {
        float part = from_bits(0xff800000U);  // -inf
        for (long long i = t; i < eights; i += FERRY_BLOCK) {
          const Eight eight = eight_of(mine, i);
          for (int k = 0; k < 8; ++k) part = greater(part, number(eight, k));
        }
        numbers[t] = part;
      }
      greatest = of_block<greater>(numbers);
      for (int t = first_thread(); t < FERRY_BLOCK; t += thread_stride()) {
        float part = 0;
        for (long long i = t; i < eights; i += FERRY_BLOCK) {
          const Eight eight = eight_of(mine, i);
          for (int k = 0; k < 8; ++k) {
            part = plus(part, exponential(minus(number(eight, k), greatest)));
          }
        }
        numbers[t] = part;
      }
      sum = of_block<plus>(numbers);
    }
    for (int t = first_thread(); t < 1; t += thread_stride()) {
      const float of_label = label < 0 ? 0.0F : bf16_value(mine[label]);
      losses[row] = minus(plus(greatest, logarithm(sum)), of_label);
    }
    if (differentiates == 0) continue;
    wait_for_block();  // the label's logit was read
    const float factor = label < 0 ? 0.0F : over(scale, sum);
    for (int t = first_thread(); t < FERRY_BLOCK; t += thread_stride()) {
      for (long long i = t; i < eights; i += FERRY_BLOCK) {
        const Eight eight = eight_of(mine, i);
        Eight gradient = {};
        for (int k = 0; k < 8; ++k) {
          const float p = times(exponential(minus(number(eight, k), greatest)), factor);
          put(gradient, k, i * 8 + k == label ? minus(p, scale) : p);
        }
        set_eight(mine, i, gradient);
      }
    }
  }
}
