import { constants } from "node:os"

const EPERM = "EPERM"
const ENOSYS = "ENOSYS"
const EPROTONOSUPPORT = "EPROTONOSUPPORT"

/** Numbers on x86_64 of the calls that the filter refuses. */
export const NUMBERS: Readonly<Record<string, number>> = {
  acct: 163,
  add_key: 248,
  bpf: 321,
  cachestat: 451,
  chroot: 161,
  clock_adjtime: 305,
  clock_settime: 227,
  delete_module: 176,
  fanotify_init: 300,
  finit_module: 313,
  fsconfig: 431,
  fsmount: 432,
  fsopen: 430,
  fspick: 433,
  get_mempolicy: 239,
  init_module: 175,
  io_setup: 206,
  io_uring_enter: 426,
  io_uring_register: 427,
  io_uring_setup: 425,
  ioperm: 173,
  iopl: 172,
  kcmp: 312,
  kexec_file_load: 320,
  kexec_load: 246,
  keyctl: 250,
  lookup_dcookie: 212,
  lsm_set_self_attr: 460,
  mbind: 237,
  memfd_secret: 447,
  migrate_pages: 256,
  modify_ldt: 154,
  mount: 165,
  mount_setattr: 442,
  move_mount: 429,
  move_pages: 279,
  open_by_handle_at: 304,
  open_tree: 428,
  open_tree_attr: 467,
  perf_event_open: 298,
  pidfd_getfd: 438,
  pivot_root: 155,
  process_madvise: 440,
  process_mrelease: 448,
  quotactl: 179,
  quotactl_fd: 443,
  reboot: 169,
  remap_file_pages: 216,
  request_key: 249,
  set_mempolicy: 238,
  set_mempolicy_home_node: 450,
  setdomainname: 171,
  sethostname: 170,
  setns: 308,
  settimeofday: 164,
  swapoff: 168,
  swapon: 167,
  sysfs: 139,
  syslog: 103,
  umount2: 166,
  unshare: 272,
  uselib: 134,
  userfaultfd: 323,
  ustat: 136,
  vhangup: 153,
}
const CLONE = 56
const CLONE3 = 435
export const GETPID = 39
const IOCTL = 16
const MEMFD_CREATE = 319
const MMAP = 9
const PERSONALITY = 135
const PRLIMIT64 = 302
const SETRLIMIT = 160
const SHMGET = 29
export const SOCKET = 41
const SOCKETPAIR = 53
export const X32_BIT = 0x4000_0000
/** A number above every call that exists. */
const FUTURE_CALL = 1000

/** Calls that older versions of libseccomp have no name for: with those they answer ENOSYS. */
export const NEW_CALLS =
  /^(cachestat|lsm_set_self_attr|memfd_secret|open_tree_attr|process_mrelease) ENOSYS$/

export type Probe = readonly [name: string, number: number, ...args: (number | bigint)[]]

/** A program that makes any call by its number, and prints the error's number or 0. */
export const probing = (probes: readonly Probe[]): string => `perl -e '
  for my $line (split /;/, shift) {
    my ($name, $call, @args) = split /,/, $line;
    my $said = syscall($call + 0, map { $_ + 0 } @args) == -1 ? $! + 0 : 0;
    print "$name $said\\n";
  }' '${probes.map((probe) => probe.join(",")).join(";")}'`

const ERROR_NAMES = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]))
const named = (line: string) =>
  line.replace(/\d+$/, (number) => (number === "0" ? "ok" : (ERROR_NAMES.get(+number) ?? number)))

/** Reads the outcome of each probe: `getpid ok`. */
export const readProbes = (output: string): string[] => output.trimEnd().split("\n").map(named)

/** Calls whose answer depends on their arguments. */
export const CONDITIONAL: readonly (readonly [Probe, string])[] = [
  [["clone into a cgroup namespace", CLONE, 0x0200_0011, 0, 0, 0, 0], EPERM],
  [["clone into an uts namespace", CLONE, 0x0400_0011, 0, 0, 0, 0], EPERM],
  [["clone into an ipc namespace", CLONE, 0x0800_0011, 0, 0, 0, 0], EPERM],
  [["clone into a user namespace", CLONE, 0x1000_0011, 0, 0, 0, 0], EPERM],
  [["clone into a pid namespace", CLONE, 0x2000_0011, 0, 0, 0, 0], EPERM],
  [["clone into a network namespace", CLONE, 0x4000_0011, 0, 0, 0, 0], EPERM],
  [["clone into a mount namespace", CLONE, 0x0002_0011, 0, 0, 0, 0], EPERM],
  [["clone into all of them", CLONE, 0x7e02_0011, 0, 0, 0, 0], EPERM],
  [["clone3", CLONE3, 0, 0], ENOSYS],
  [["a call of the future", FUTURE_CALL], ENOSYS],
  [["getpid", GETPID], "ok"],
  [["set the limit of core dumps", SETRLIMIT, 4, 1], "ok"],
  [["set the limit of core dumps behind high bits", SETRLIMIT, 0x1_0000_0004, 1], "ok"],
  [["set the limit of core dumps by the newer call", PRLIMIT64, 0, 4, 1, 0], "ok"],
  [["ask for the limit of core dumps", PRLIMIT64, 0, 4, 0, 0], "ok"],
  [["set another limit", SETRLIMIT, 7, 1], "EFAULT"],
  [["set another limit by the newer call", PRLIMIT64, 0, 7, 1, 0], "EFAULT"],
  [["map pages", MMAP, 0, 4096, 3, 0x22, -1, 0], "ok"],
  [["map huge pages", MMAP, 0, 4096, 3, 0x4_0022, -1, 0], EPERM],
  [["map huge pages behind high bits", MMAP, 0, 4096, 3, 0x1_0004_0022, -1, 0], EPERM],
  [["a file of pages nowhere", MEMFD_CREATE, 0, 0], "EFAULT"],
  [["a file of huge pages", MEMFD_CREATE, 0, 4], EPERM],
  [["shared huge pages", SHMGET, 0, 4096, 0x800], EPERM],
  [["ask for the personality", PERSONALITY, 0xffff_ffff], "ok"],
  [["take Linux as personality", PERSONALITY, 0], "ok"],
  [["place memory at fixed addresses", PERSONALITY, 0x4_0000], ENOSYS],
  [["map the page at zero", PERSONALITY, 0x10_0000], ENOSYS],
  [["unix socket", SOCKET, 1, 1, 0], "ok"],
  [["inet socket", SOCKET, 2, 1, 0], "ok"],
  [["inet6 socket", SOCKET, 10, 2, 0], "ok"],
  [["netlink socket", SOCKET, 16, 3, 0], "ok"],
  [["inet stream with flags", SOCKET, 2, 0x8_0801, 6], "ok"],
  [["inet datagram", SOCKET, 2, 2, 17], "ok"],
  [["mptcp socket", SOCKET, 2, 1, 262], EPROTONOSUPPORT],
  [["mptcp socket of inet6", SOCKET, 10, 1, 262], EPROTONOSUPPORT],
  [["mptcp socket behind high bits", SOCKET, 2, 1, 0x1_0000_0106], EPROTONOSUPPORT],
  [["sctp stream", SOCKET, 2, 1, 132], EPROTONOSUPPORT],
  [["sctp by its type", SOCKET, 2, 5, 0], EPROTONOSUPPORT],
  [["dccp by its type", SOCKET, 2, 6, 0], EPROTONOSUPPORT],
  [["a type of the future", SOCKET, 2, 11, 0], EPROTONOSUPPORT],
  [["udp-lite datagram", SOCKET, 10, 2, 136], EPROTONOSUPPORT],
  [["l2tp datagram", SOCKET, 2, 2, 115], EPROTONOSUPPORT],
  [["netlink of socket lists", SOCKET, 16, 3, 4], EPROTONOSUPPORT],
  [["netlink of the firewall", SOCKET, 16, 3, 12], EPROTONOSUPPORT],
  [["netlink of devices", SOCKET, 16, 3, 15], EPROTONOSUPPORT],
  [["netlink of many families", SOCKET, 16, 3, 16], EPROTONOSUPPORT],
  [["netlink behind high bits", SOCKET, 16, 3, 0x1_0000_0010], EPROTONOSUPPORT],
  [["pair of crypto sockets", SOCKETPAIR, 38, 5, 0, 0], EPERM],
  [["pair of inet sockets", SOCKETPAIR, 2, 1, 262, 0], EPERM],
  [["pair of unix sockets nowhere", SOCKETPAIR, 1, 1, 0, 0], "EFAULT"],
  [["key socket", SOCKET, 15, 3, 2], EPERM],
  [["crypto socket", SOCKET, 38, 5, 0], EPERM],
  [["crypto socket behind high bits", SOCKET, 0x1_0000_0026, 5, 0], EPERM],
  [["vsock socket", SOCKET, 40, 1, 0], EPERM],
  [["bluetooth socket", SOCKET, 31, 3, 1], EPERM],
  [["type into a terminal", IOCTL, 0, 0x5412, 0], EPERM],
  [["type into a terminal behind high bits", IOCTL, 0, 0x1_0000_5412, 0], EPERM],
  [["paste into the console", IOCTL, 0, 0x541c, 0], EPERM],
  [["ask a pipe for its terminal", IOCTL, 0, 0x5401, 0], "ENOTTY"],
  [["ask a pipe for its window", IOCTL, 0, 0x5413, 0], "ENOTTY"],
  [["ask with the sign extended as musl does", IOCTL, 0, 0xffff_ffff_8004_5430n, 0], "ENOTTY"],
]

export const REFUSED_PROBES = Object.entries(NUMBERS).map(
  ([name, number]): Probe => [name, number, 0, 0, 0, 0, 0],
)
