import type { CallArgument, CallRule, SeccompProfile } from "./format.ts"
import { COMMON_CALLS, X86_64_CALLS } from "./known.ts"
import { REFUSED } from "./refused.ts"

const EPERM = 1
const ENOSYS = 38

/** As Node names them: `process.arch`. */
export type Architecture = "x64" | "arm64"

const ARCHITECTURES = { x64: "SCMP_ARCH_X86_64", arm64: "SCMP_ARCH_AARCH64" } as const

/**
 * What a process inside may ask of the kernel: every call known today but those of REFUSED, which answer
 * EPERM. A call that is not known here answers ENOSYS, so that programs take the older way. Only the native
 * architecture: a 32-bit process is killed at its first call, and each architecture more would cost
 * milliseconds at every start.
 */
export const seccompProfile = (architecture: Architecture): SeccompProfile => ({
  defaultAction: "SCMP_ACT_ERRNO",
  defaultErrnoRet: ENOSYS,
  architectures: [ARCHITECTURES[architecture]],
  syscalls: [allow(unconditional(architecture)), refuse(refused(architecture)), ...CONDITIONAL],
})

const known = (architecture: Architecture) =>
  architecture === "x64" ? [...COMMON_CALLS, ...X86_64_CALLS] : COMMON_CALLS

const refused = (architecture: Architecture) =>
  known(architecture).filter((name) => name in REFUSED)

const unconditional = (architecture: Architecture) => {
  const conditional = new Set(CONDITIONAL.flatMap(({ names }) => names))
  return known(architecture).filter((name) => !(name in REFUSED) && !conditional.has(name))
}

const allow = (names: readonly string[], argument?: CallArgument): CallRule => ({
  names,
  action: "SCMP_ACT_ALLOW",
  ...(argument && { args: [argument] }),
})

const refuse = (names: readonly string[], argument?: CallArgument): CallRule => ({
  names,
  action: "SCMP_ACT_ERRNO",
  errnoRet: EPERM,
  ...(argument && { args: [argument] }),
})

const equals = (index: number, value: number): CallArgument => ({
  index,
  value,
  op: "SCMP_CMP_EQ",
})

const atLeast = (index: number, value: number): CallArgument => ({
  index,
  value,
  op: "SCMP_CMP_GE",
})

/** The bits of the mask are these. */
const bits = (index: number, mask: number, wanted: number): CallArgument => ({
  index,
  value: mask,
  valueTwo: wanted,
  op: "SCMP_CMP_MASKED_EQ",
})

/** CLONE_NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWNS. */
const NAMESPACE_FLAGS = [
  0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000, 0x0002_0000,
]
const ANY_NAMESPACE = NAMESPACE_FLAGS.reduce((all, flag) => all + flag, 0)

/** Linux and its 32-bit and 2.6 disguises, and the question which one it is. */
const PERSONALITIES = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff]

/** AF_UNIX, AF_INET, AF_INET6, AF_NETLINK; AF_PACKET, which needs a capability that has to be given. */
const FAMILIES = [1, 2, 10, 16, 17]
const LAST_FAMILY = Math.max(...FAMILIES)
const OTHER_FAMILIES = Array.from({ length: LAST_FAMILY }, (_, family) => family).filter(
  (family) => !FAMILIES.includes(family),
)

/**
 * TIOCSTI types into a terminal for whoever reads it, TIOCLINUX pastes into the console. The two differ in
 * their last four bits only.
 */
const TERMINAL_INPUT = { last: [0x2, 0xc], rest: 0x5410 }
const IOCTL_BITS = 32
const LAST_BITS = 4

/**
 * Rules of one call never overlap: which of two that match would win is not the runtimes' to say. The
 * kernel reads only the lower 32 bits of an ioctl's number, so the comparison must do the same; "any number
 * but two" is then: some bit above the last four differs, or the last four are others.
 */
const CONDITIONAL: readonly CallRule[] = [
  allow(["clone"], bits(0, ANY_NAMESPACE, 0)),
  ...NAMESPACE_FLAGS.map((flag) => refuse(["clone"], bits(0, flag, flag))),
  ...PERSONALITIES.map((value) => allow(["personality"], equals(0, value))),
  ...FAMILIES.map((family) => allow(["socket"], equals(0, family))),
  ...OTHER_FAMILIES.map((family) => refuse(["socket"], equals(0, family))),
  refuse(["socket"], atLeast(0, LAST_FAMILY + 1)),
  ...Array.from({ length: 2 ** LAST_BITS }, (_, last) => last)
    .filter((last) => !TERMINAL_INPUT.last.includes(last))
    .map((last) => allow(["ioctl"], bits(1, 2 ** LAST_BITS - 1, last))),
  ...Array.from({ length: IOCTL_BITS - LAST_BITS }, (_, index) => 2 ** (index + LAST_BITS)).map(
    (bit) => allow(["ioctl"], bits(1, bit, hasBit(TERMINAL_INPUT.rest, bit) ? 0 : bit)),
  ),
  ...TERMINAL_INPUT.last.map((last) =>
    refuse(["ioctl"], bits(1, 2 ** IOCTL_BITS - 1, TERMINAL_INPUT.rest + last)),
  ),
]

function hasBit(value: number, bit: number): boolean {
  return Math.floor(value / bit) % 2 === 1
}
