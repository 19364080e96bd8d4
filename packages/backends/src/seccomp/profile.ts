import type { CallArgument, CallRule, SeccompProfile } from "./format.ts"
import { COMMON_CALLS, X86_64_CALLS } from "./known.ts"
import { REFUSED } from "./refused.ts"

const EPERM = 1
const ENOSYS = 38
const EPROTONOSUPPORT = 93

/** Architectures as Node names them: `process.arch`. */
export type Architecture = "x64" | "arm64"

const ARCHITECTURES = { x64: "SCMP_ARCH_X86_64", arm64: "SCMP_ARCH_AARCH64" } as const

/**
 * The system calls that a process inside may make: every call known today except those of REFUSED, which answer EPERM.
 * A call that is not known here answers ENOSYS, so that programs take the older way. Only the native architecture: a
 * 32-bit process is killed at its first call, and each architecture more would cost milliseconds at every start.
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

const allow = (names: readonly string[], ...args: readonly CallArgument[]): CallRule => ({
  names,
  action: "SCMP_ACT_ALLOW",
  ...(args.length > 0 && { args }),
})

const answer = (
  errnoRet: number,
  names: readonly string[],
  args: readonly CallArgument[],
): CallRule => ({
  names,
  action: "SCMP_ACT_ERRNO",
  errnoRet,
  ...(args.length > 0 && { args }),
})

const refuse = (names: readonly string[], ...args: readonly CallArgument[]): CallRule =>
  answer(EPERM, names, args)

/** Answers as a kernel without the protocol does: programs then go on without it. */
const unsupported = (names: readonly string[], ...args: readonly CallArgument[]): CallRule =>
  answer(EPROTONOSUPPORT, names, args)

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

const below = (index: number, value: number): CallArgument => ({
  index,
  value,
  op: "SCMP_CMP_LT",
})

/** Matches an argument whose bits under the mask are these. */
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

/** Linux and its 32-bit and 2.6 disguises, and the query for the current one. */
const PERSONALITIES = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff]

/** AF_UNIX; AF_PACKET, which needs a capability that has to be given. */
const WHOLE_FAMILIES = [1, 17]
/** AF_INET, AF_INET6. */
const INTERNET_FAMILIES = [2, 10]
const NETLINK_FAMILY = 16
const UNIX_FAMILY = 1
const FAMILIES = [...WHOLE_FAMILIES, ...INTERNET_FAMILIES, NETLINK_FAMILY]
const LAST_FAMILY = Math.max(...FAMILIES)
const OTHER_FAMILIES = Array.from({ length: LAST_FAMILY }, (_, family) => family).filter(
  (family) => !FAMILIES.includes(family),
)

/** The part of a socket's type beside flags such as SOCK_CLOEXEC. */
const TYPE_MASK = 0xf
const [STREAM, DATAGRAM, RAW] = [1, 2, 3] as const

/**
 * Streams and datagrams of TCP, UDP and ICMP, whose numbers are below 64; those of SCTP, UDP-Lite, L2TP and MPTCP are
 * above. Raw sockets, for which a capability has to be given, take every protocol that has a number in IP. No other type:
 * the zero of a protocol stands for SCTP or DCCP there.
 */
const internetRules = (family: number): CallRule[] => {
  const socket = ["socket"]
  const typed = (type: number) => [equals(0, family), bits(1, TYPE_MASK, type)] as const
  return [
    ...[STREAM, DATAGRAM].flatMap((type) => [
      allow(socket, ...typed(type), below(2, 64)),
      unsupported(socket, ...typed(type), atLeast(2, 64)),
    ]),
    allow(socket, ...typed(RAW), below(2, 256)),
    unsupported(socket, ...typed(RAW), atLeast(2, 256)),
    unsupported(socket, ...typed(0)),
    // The types 4 to 7, and 8 to 15.
    unsupported(socket, equals(0, family), bits(1, 0xc, 0x4)),
    unsupported(socket, equals(0, family), bits(1, 0x8, 0x8)),
  ]
}

/**
 * NETLINK_ROUTE tells of interfaces and addresses, for getifaddrs and the resolver. No other protocol is needed inside.
 */
const NETLINK_RULES: readonly CallRule[] = [
  allow(["socket"], equals(0, NETLINK_FAMILY), equals(2, 0)),
  unsupported(["socket"], equals(0, NETLINK_FAMILY), atLeast(2, 1)),
]

/** Only unix sockets come in pairs, and the kernel finds that out only after it has made two whole sockets. */
const PAIR_RULES: readonly CallRule[] = [
  refuse(["socketpair"], equals(0, 0)),
  allow(["socketpair"], equals(0, UNIX_FAMILY)),
  refuse(["socketpair"], atLeast(0, UNIX_FAMILY + 1)),
]

/**
 * TIOCSTI types into a terminal for its reader, TIOCLINUX pastes into the console. The two differ in their last four
 * bits only.
 */
const TERMINAL_INPUT = { last: [0x2, 0xc], rest: 0x5410 }
const IOCTL_BITS = 32
const LAST_BITS = 4

/** Constants of setrlimit and prlimit64: RLIM_NLIMITS and RLIMIT_CORE. The kernel reads the lower 32 bits of the number. */
const RESOURCES = 16
const CORE = 4
const resource = (index: number, number: number) => bits(index, 2 ** 32 - 1, number)

/**
 * The limit of core dumps stays at CORE_LIMIT_BYTES: with another, a crash inside starts the host's own handler of core
 * dumps. Setting it succeeds and changes nothing, because some programs that want no dump of their own end if it fails.
 */
const CORE_RULES: readonly CallRule[] = Array.from({ length: RESOURCES }, (_, number) => [
  ...(number === CORE
    ? [
        answer(0, ["setrlimit"], [resource(0, number)]),
        answer(0, ["prlimit64"], [resource(1, number), atLeast(2, 1)]),
        allow(["prlimit64"], resource(1, number), equals(2, 0)),
      ]
    : [allow(["setrlimit"], resource(0, number)), allow(["prlimit64"], resource(1, number))]),
]).flat()

/**
 * Huge pages are the host's, set aside for a program of its own, and no cgroup counts them: MAP_HUGETLB of mmap, MFD_HUGETLB of
 * memfd_create, SHM_HUGETLB of shmget.
 */
const HUGE_PAGES = { mmap: [3, 0x4_0000], memfd_create: [1, 0x4], shmget: [2, 0x800] } as const
const HUGE_PAGE_RULES: readonly CallRule[] = Object.entries(HUGE_PAGES).flatMap(
  ([name, [index, flag]]) => [
    allow([name], bits(index, flag, 0)),
    refuse([name], bits(index, flag, flag)),
  ],
)

/**
 * Rules that depend on arguments. Rules of one call never overlap: the specification does not say which of two that
 * match wins. The kernel reads only the lower 32 bits of an ioctl's number, so the comparison must do the same; "any
 * number but two" is then: some bit above the last four differs, or the last four are others.
 */
const CONDITIONAL: readonly CallRule[] = [
  allow(["clone"], bits(0, ANY_NAMESPACE, 0)),
  ...NAMESPACE_FLAGS.map((flag) => refuse(["clone"], bits(0, flag, flag))),
  ...PERSONALITIES.map((value) => allow(["personality"], equals(0, value))),
  ...WHOLE_FAMILIES.map((family) => allow(["socket"], equals(0, family))),
  ...INTERNET_FAMILIES.flatMap(internetRules),
  ...NETLINK_RULES,
  ...PAIR_RULES,
  ...CORE_RULES,
  ...HUGE_PAGE_RULES,
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
