/* Makes the n-th system call of a kind fail, of those that one program makes on files below a folder: ferry-torch, or the one that
 * FERRY_FAIL_IN names.
 *
 *   LD_PRELOAD=failing_calls.so FERRY_FAIL=fsync:3 FERRY_FAIL_BELOW=/tmp/run FERRY_FAIL_TOLD=/tmp/told ferry train ...
 *
 * Kinds: read, write, reserve, sync, rename, create, remove, and allocate: memory of at least 256 KiB, asked for after the first file was
 * created below the folder. Of pread() and pwrite() also: full (no space), short (the first half is moved, and told as that), torn (the
 * first half is moved, an error is told) and silent (no answer). A call that fails makes the file FERRY_FAIL_TOLD.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LARGE = 256 << 10 }; /* bytes */

static atomic_int calls;
static atomic_int has_begun; /* a file was created below the folder */

static int in_program(void) {
  const char* wanted = getenv("FERRY_FAIL_IN");
  char program[4096];
  const ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
  if (size <= 0) return 0;
  program[size] = 0;
  const char* slash = strrchr(program, '/');
  return slash != NULL && strcmp(slash + 1, wanted != NULL ? wanted : "ferry-torch") == 0;
}

/* Counts a call of this kind; whether it is the one to fail. */
static int is_the_one(const char* kind) {
  const char* wanted = getenv("FERRY_FAIL");
  const size_t size = strlen(kind);
  if (wanted == NULL || strncmp(wanted, kind, size) != 0 || wanted[size] != ':' || !in_program()) return 0;
  if (atomic_fetch_add(&calls, 1) + 1 != atoi(wanted + size + 1)) return 0;
  const int told = creat(getenv("FERRY_FAIL_TOLD"), 0644);
  if (told >= 0) close(told);
  return 1;
}

static int fails_path(const char* kind, const char* path) {
  const char* below = getenv("FERRY_FAIL_BELOW");
  if (below == NULL || strncmp(path, below, strlen(below)) != 0) return 0;
  if (strcmp(kind, "create") == 0) atomic_store(&has_begun, 1);
  return is_the_one(kind);
}

static int fails_memory(size_t size) { return size >= LARGE && atomic_load(&has_begun) && is_the_one("allocate"); }

static int fails(const char* kind, int descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return 0;
  path[size] = 0;
  return fails_path(kind, path);
}

/* io_uring's requests are no calls: with FERRY_FAIL_WITHOUT_URING the kernel refuses it, as many containers do. */
__attribute__((constructor)) static void without_uring(void) {
  if (getenv("FERRY_FAIL_WITHOUT_URING") == NULL) return;
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) abort();
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define REFUSE(number) return errno = (number), -1

ssize_t write(int descriptor, const void* bytes, size_t size) {
  REAL(write);
  if (fails("write", descriptor)) REFUSE(ENOSPC);
  return real(descriptor, bytes, size);
}

/* What a transfer is to move and tell; those that are not the one move all and tell what came of it. */
struct fault {
  size_t size;
  int error; /* told in the end, or 0 */
};

static struct fault fault_of(const char* kind, int descriptor, size_t size) {
  const size_t half = size / 2 / 512 * 512; /* which direct I/O can move */
  if (fails(kind, descriptor)) return (struct fault){0, EIO};
  if (fails("short", descriptor)) return (struct fault){half, 0};
  if (fails("torn", descriptor)) return (struct fault){half, EIO};
  if (fails("silent", descriptor)) {
    for (;;) pause();
  }
  return (struct fault){size, 0};
}

ssize_t pread(int descriptor, void* bytes, size_t size, off_t at) {
  REAL(pread);
  const struct fault fault = fault_of("read", descriptor, size);
  const ssize_t moved = fault.size > 0 ? real(descriptor, bytes, fault.size, at) : 0;
  if (fault.error != 0) REFUSE(fault.error);
  return moved;
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t at) {
  REAL(pwrite);
  if (fails("full", descriptor)) REFUSE(ENOSPC);
  const struct fault fault = fault_of("write", descriptor, size);
  const ssize_t moved = fault.size > 0 ? real(descriptor, bytes, fault.size, at) : 0;
  if (fault.error != 0) REFUSE(fault.error);
  return moved;
}

int fallocate(int descriptor, int mode, off_t at, off_t size) {
  REAL(fallocate);
  if (fails("reserve", descriptor)) REFUSE(ENOSPC);
  return real(descriptor, mode, at, size);
}

int fsync(int descriptor) {
  REAL(fsync);
  if (fails("sync", descriptor)) REFUSE(EIO);
  return real(descriptor);
}

int rename(const char* from, const char* to) {
  REAL(rename);
  if (fails_path("rename", to)) REFUSE(EIO);
  return real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  REAL(renameat2);
  if (fails_path("rename", to)) REFUSE(EIO);
  return real(from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  if (fails_path("create", path)) REFUSE(ENOSPC);
  return real(path, mode);
}

int open(const char* path, int flags, ...) {
  REAL(open);
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    if (fails_path("create", path)) REFUSE(ENOSPC);
  }
  return real(path, flags, mode);
}

int open64(const char* path, int flags, ...) { /* as Python calls it */
  REAL(open64);
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
    if (fails_path("create", path)) REFUSE(ENOSPC);
  }
  return real(path, flags, mode);
}

extern void* __libc_malloc(size_t size); /* dlsym() itself allocates */

void* malloc(size_t size) {
  if (fails_memory(size)) return errno = ENOMEM, NULL;
  return __libc_malloc(size);
}

int posix_memalign(void** at, size_t alignment, size_t size) {
  REAL(posix_memalign);
  if (fails_memory(size)) return ENOMEM;
  return real(at, alignment, size);
}

void* mmap(void* where, size_t size, int protection, int flags, int descriptor, off_t at) {
  REAL(mmap);
  if ((flags & MAP_ANONYMOUS) != 0 && fails_memory(size)) return errno = ENOMEM, MAP_FAILED;
  return real(where, size, protection, flags, descriptor, at);
}

int unlink(const char* path) {
  REAL(unlink);
  if (fails_path("remove", path)) REFUSE(EIO);
  return real(path);
}

int unlinkat(int folder, const char* path, int flags) {
  REAL(unlinkat);
  if (fails("remove", folder)) REFUSE(EIO);
  return real(folder, path, flags);
}
