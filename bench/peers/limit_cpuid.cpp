// Hides instructions from the program that it is loaded into (LD_PRELOAD), as a processor without them would: a peer chooses its
// kernels by the CPUID instruction, and has no setting for it. Linux makes that instruction fail on request (arch_prctl(2),
// ARCH_SET_CPUID) where the processor can (Intel's; "cpuid_fault" in /proc/cpuinfo); the handler answers in its place, with
// the bits of AVX-512, AMX and the VNNI of 256 bits cleared (Intel's manual, volume 2A, CPUID, leaf 7). What is left is AVX2.
// With ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI, oneDNN's own limit, only what came after VNNI is cleared: bfloat16, FP16 and AMX.
// On other processors, and with LIMIT_CPUID_COPIES set, it answers in libraries only that hide_cpuid.py has made copies of.
#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// What is cleared of leaf 7, and of its second part.
struct Hidden {
  unsigned ebx, ecx, edx, eax1, edx1;
};

constexpr unsigned bits(std::initializer_list<int> numbers) {
  unsigned all = 0;
  for (const int number : numbers) all |= 1U << number;
  return all;
}

constexpr Hidden kBeyondAvx2{
    // F, DQ, IFMA, PF, ER, CD, BW, VL of AVX-512
    .ebx = bits({16, 17, 21, 26, 27, 28, 30, 31}),
    // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ of AVX-512
    .ecx = bits({1, 6, 11, 12, 14}),
    // 4VNNIW, 4FMAPS, VP2INTERSECT, FP16 of AVX-512; bf16, tiles and int8 of AMX
    .edx = bits({2, 3, 8, 22, 23, 24, 25}),
    // AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA
    .eax1 = bits({4, 5, 21, 23}),
    // AVX-VNNI-INT8 and -INT16, AVX-NE-CONVERT, AMX-COMPLEX, AVX10
    .edx1 = bits({4, 5, 8, 10, 19})};
constexpr Hidden kBeyondVnni{.ebx = 0,
                             .ecx = 0,
                             .edx = bits({8, 22, 23, 24, 25}),
                             .eax1 = kBeyondAvx2.eax1,
                             .edx1 = kBeyondAvx2.edx1};

Hidden hidden = kBeyondAvx2;

long permit(bool permitted) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, permitted ? 1L : 0L); }

Registers answer(unsigned leaf, unsigned part) {
  Registers r;
  permit(true);
  __cpuid_count(leaf, part, r.eax, r.ebx, r.ecx, r.edx);
  permit(false);
  if (leaf == 7 && part == 0) {
    r.ebx &= ~hidden.ebx;
    r.ecx &= ~hidden.ecx;
    r.edx &= ~hidden.edx;
  }
  if (leaf == 7 && part == 1) {
    r.eax &= ~hidden.eax1;
    r.edx &= ~hidden.edx1;
  }
  return r;
}

void on_fault(int signal, siginfo_t* /*info*/, void* context) {
  constexpr unsigned char kCpuid[] = {0x0F, 0xA2}, kOfCopies[] = {0xCD, 0xA2};
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const void* const place = reinterpret_cast<const void*>(registers[REG_RIP]);
  if (std::memcmp(place, kCpuid, sizeof kCpuid) != 0 &&
      std::memcmp(place, kOfCopies, sizeof kOfCopies) != 0) {
    std::signal(signal, SIG_DFL);  // a fault of the program's own: it comes again, and ends it
    return;
  }
  const Registers r =
      answer(static_cast<unsigned>(registers[REG_RAX]), static_cast<unsigned>(registers[REG_RCX]));
  registers[REG_RAX] = r.eax;
  registers[REG_RBX] = r.ebx;
  registers[REG_RCX] = r.ecx;
  registers[REG_RDX] = r.edx;
  registers[REG_RIP] += sizeof kCpuid;
}

[[gnu::constructor]] void hide() {
  const char* const isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (isa != nullptr && std::strcmp(isa, "AVX512_CORE_VNNI") == 0) hidden = kBeyondVnni;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  const bool answers = sigaction(SIGSEGV, &action, nullptr) == 0;
  if (answers && (permit(false) == 0 || std::getenv("LIMIT_CPUID_COPIES") != nullptr)) return;
  std::fputs("limit_cpuid: this processor or system cannot hide instructions\n", stderr);
  std::_Exit(1);
}

}  // namespace
