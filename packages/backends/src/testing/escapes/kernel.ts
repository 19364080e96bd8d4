import { type Attempt, perl } from "../attempt.ts"

const FILTER = "the system call filter"
const FILTER_AND_CAPABILITIES = "the system call filter, and behind it the missing capability"

/** CLONE_NEWNS and the others, by the name of the namespace. */
const NAMESPACES =
  "(mount => 0x20000, cgroup => 0x2000000, uts => 0x4000000, ipc => 0x8000000, user => 0x10000000, pid => 0x20000000, net => 0x40000000)"

/** Attempts on the kernel: system calls that a sandbox has no business with. None of them does harm if it succeeds. */
export const KERNEL_ATTEMPTS: readonly Attempt[] = [
  {
    name: "mount a file system",
    stoppedBy: FILTER_AND_CAPABILITIES,
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      for my $type (qw(tmpfs proc sysfs cgroup cgroup2 debugfs devpts bpf overlay)) {
        try_to("mount $type", sub { sys("mount", "none", "/mnt", $type, 0, 0) });
      }
      try_to("bind /", sub { sys("mount", "/", "/mnt", "none", 4096, 0) });
      try_to("unmount /tmp", sub { sys("umount2", "/tmp", 2) });
    `,
  },
  {
    name: "mount by the newer system calls",
    stoppedBy: FILTER_AND_CAPABILITIES,
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      try_to("fsopen", sub { sys("fsopen", "tmpfs", 0) });
      try_to("fspick", sub { sys("fspick", -100, "/", 0) });
      try_to("fsmount", sub { sys("fsmount", -1, 0, 0) });
      try_to("open_tree", sub { sys("open_tree", -100, "/", 1) });
      try_to("move_mount", sub { sys("move_mount", -100, "/run", -100, "/mnt", 0) });
      try_to("mount_setattr", sub { sys("mount_setattr", -100, "/tmp", 0, pack("Q4", 1, 0, 0, 0), 32) });
    `,
  },
  {
    name: "change the root directory",
    stoppedBy: FILTER_AND_CAPABILITIES,
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      try_to("pivot_root", sub { sys("pivot_root", "/", "/") });
      try_to("chroot", sub { sys("chroot", "/proc/1/root") });
    `,
  },
  {
    name: "make a namespace",
    stoppedBy: FILTER,
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      my %flags = ${NAMESPACES};
      for my $kind (sort keys %flags) {
        try_to("clone $kind", sub {
          my $child = sys("clone", $flags{$kind} | 17, 0, 0, 0, 0);
          POSIX::_exit(0) if defined $child && $child == 0;
          return $child;
        });
      }
      for my $kind (sort keys %flags) {
        try_to("unshare $kind", sub { sys("unshare", $flags{$kind} + 0) });
      }
    `,
  },
  {
    name: "make a namespace by clone3",
    stoppedBy: "the system call filter: its flags lie in memory, so the whole call does not exist",
    sees: ["ENOSYS"],
    succeedsUnhardened: true,
    script: perl`
      try_to("clone3", sub {
        my $child = sys("clone3", pack("Q11", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88);
        POSIX::_exit(0) if defined $child && $child == 0;
        return $child;
      });
    `,
  },
  {
    name: "enter a namespace",
    stoppedBy: FILTER_AND_CAPABILITIES,
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      for my $kind (qw(net ipc uts cgroup pid mnt user)) {
        open(my $namespace, "<", "/proc/1/ns/$kind") or die "$kind: $!";
        try_to("setns $kind", sub { sys("setns", fileno($namespace), 0) });
      }
    `,
  },
  {
    name: "load a kernel module",
    stoppedBy: `${FILTER_AND_CAPABILITIES}, which root inside does not have outside`,
    sees: ["EPERM"],
    script: perl`
      open(my $file, "<", "/proc/self/exe") or die $!;
      try_to("init_module", sub { sys("init_module", "\0" x 64, 64, "") });
      try_to("finit_module", sub { sys("finit_module", fileno($file), "", 0) });
      try_to("delete_module", sub { sys("delete_module", "no_such_module", 04000) });
    `,
  },
  {
    name: "open a file by its number, past every mount",
    stoppedBy: FILTER_AND_CAPABILITIES,
    sees: ["EPERM"],
    script: perl`
      my ($handle, $mount) = (pack("Li", 128, 0) . "\0" x 128, "\0" x 4);
      # An overlay gives none; a mount of the host's disk does.
      my ($place) = grep { sys("name_to_handle_at", -100, $_, $handle, $mount, 0) } qw(/usr /workspace);
      open(my $root, "<", $place // die "name_to_handle_at: $!") or die $!;
      try_to("a handle of its own", sub { sys("open_by_handle_at", fileno($root), $handle, 0) });
      # Inode 2, the root directory of ext4.
      my $outer = pack("LiLL", 8, 1, 2, 0) . "\0" x 120;
      try_to("the root of the disk", sub { sys("open_by_handle_at", fileno($root), $outer, 0) });
    `,
  },
  {
    name: "use the kernel's keyrings",
    stoppedBy: FILTER,
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      try_to("keyctl", sub { sys("keyctl", 0, -3, 1) });
      try_to("add_key", sub { sys("add_key", "user", "escape", "x", 1, -3) });
      try_to("request_key", sub { sys("request_key", "user", "escape", 0, -3) });
    `,
  },
  {
    name: "use parts of the kernel that many escapes went through",
    stoppedBy: FILTER,
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      try_to("bpf", sub { sys("bpf", 0, pack("L4", 2, 4, 4, 1) . "\0" x 104, 120) });
      try_to("perf_event_open", sub { sys("perf_event_open", pack("LL", 1, 128) . "\0" x 120, 0, -1, -1, 0) });
      try_to("io_uring_setup", sub { sys("io_uring_setup", 1, "\0" x 120) });
      try_to("userfaultfd", sub { sys("userfaultfd", 1) });
      try_to("kcmp", sub { sys("kcmp", $$, 1, 0, 0, 0) });
      try_to("pidfd_getfd", sub { sys("pidfd_getfd", sys("pidfd_open", 1, 0), 0, 0) });
    `,
  },
  {
    name: "start another kernel, or none",
    stoppedBy: FILTER_AND_CAPABILITIES,
    sees: ["EPERM"],
    script: perl`
      try_to("kexec_load", sub { sys("kexec_load", 0, 0, 0, 0) });
      try_to("kexec_file_load", sub { sys("kexec_file_load", -1, -1, 0, "", 0) });
      # The command that makes Ctrl-Alt-Del an ordinary signal, as it mostly is.
      try_to("reboot", sub { sys("reboot", 0xfee1dead, 672274793, 0, 0) });
    `,
  },
  {
    name: "set the clock",
    stoppedBy: FILTER_AND_CAPABILITIES,
    sees: ["EPERM"],
    script: perl`
      my $now = pack("qq", time, 0);
      # The usual length of a tick.
      my $tick = pack("L", 0x4000) . "\0" x 84 . pack("q", 10_000) . "\0" x 112;
      try_to("settimeofday", sub { sys("settimeofday", $now, 0) });
      try_to("clock_settime", sub { sys("clock_settime", 0, $now) });
      try_to("clock_adjtime", sub { sys("clock_adjtime", 0, $tick) });
      try_to("adjtimex", sub { sys("adjtimex", $tick) });
    `,
  },
  {
    name: "change the host's name, swap or accounting",
    stoppedBy: FILTER_AND_CAPABILITIES,
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      try_to("sethostname", sub { sys("sethostname", "escaped", 7) });
      try_to("setdomainname", sub { sys("setdomainname", "escaped", 7) });
      try_to("swapon", sub { sys("swapon", "/no/such/file", 0) });
      try_to("swapoff", sub { sys("swapoff", "/no/such/file") });
      try_to("acct", sub { sys("acct", "/no/such/file") });
    `,
  },
  {
    name: "take huge pages that the host has set aside",
    stoppedBy: "the system call filter: no cgroup counts them",
    sees: ["EPERM"],
    script: perl`
      my ($any, $size, $rights, $private, $none, $name) = (0, 2 << 20, 3, 0x4_0022, -1, "huge\0");
      try_to("mmap", sub { sys("mmap", $any, $size, $rights, $private, $none, $any) });
      my ($huge, $shared) = (4, 0x800 | 01600);
      try_to("memfd_create", sub { sys("memfd_create", $name, $huge) });
      try_to("shmget", sub { sys("shmget", $any, $size, $shared) });
    `,
  },
  {
    name: "drive the hardware",
    stoppedBy: FILTER_AND_CAPABILITIES,
    sees: ["EPERM"],
    onlyOn: "x64",
    script: perl`
      try_to("iopl", sub { sys("iopl", 3) });
      try_to("ioperm", sub { sys("ioperm", 0x80, 1, 1) });
    `,
  },
  {
    name: "make system calls by another architecture's numbers",
    stoppedBy: "the system call filter, which knows the native architecture alone",
    sees: ["SIGSYS", "ENOSYS", "ENOEXEC"],
    onlyOn: "x64",
    script: perl`
      sub ended { return "=SIGSYS" if ($? & 127) == 31; $! = $? >> 8; return $? == 0 }
      try_to("x32", sub {
        my $child = fork() // die $!;
        if (!$child) { POSIX::_exit(syscall(0x40000000 + $CALLS{getpid}) == -1 ? $! + 0 : 0) }
        waitpid($child, 0);
        return ended();
      });
      # exit(0) as a 32-bit program.
      my $code = "\xb8\1\0\0\0\x31\xdb\xcd\x80";
      my $start = 0x8048000;
      my $header = "\x7fELF\1\1\1" . "\0" x 9 . pack("SSLLLLLSSSSSS", 2, 3, 1, $start + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0);
      my $segment = pack("L8", 1, 0, $start, $start, 84 + length $code, 84 + length $code, 5, 4096);
      sysopen(my $file, "/workspace/i386", O_WRONLY | O_CREAT, 0755) or die $!;
      syswrite($file, $header . $segment . $code);
      close $file;
      try_to("i386", sub {
        my $child = fork() // die $!;
        if (!$child) { { exec "/workspace/i386" } POSIX::_exit($! + 0) }
        waitpid($child, 0);
        return ended();
      });
    `,
  },
]
