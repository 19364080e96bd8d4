import { type Attempt, perl } from "../attempt.ts"

/** CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID: the capabilities of `Hardening`'s default. */
const KEPT_CAPABILITIES = "0xfb"

/** Attempts on the rights and limits of the processes inside. */
export const PRIVILEGE_ATTEMPTS: readonly Attempt[] = [
  {
    name: "have or gain a capability beyond the documented ones",
    stoppedBy: "the bounding set, and no-new-privileges",
    sees: ["EPERM", "none-beyond"],
    succeedsUnhardened: true,
    script: perl`
      my $status = content_of("/proc/self/status");
      for my $set (qw(CapInh CapPrm CapEff CapBnd CapAmb)) {
        my ($value) = $status =~ /^$set:\s*(\S+)/m;
        try_to($set, sub { hex($value) & ~${KEPT_CAPABILITIES} ? "ok" : "=none-beyond" });
      }
      my $header = pack("LL", 0x20080522, 0);
      my $all = pack("L6", (0xffffffff, 0xffffffff, 0) x 2);
      try_to("capset", sub { sys("capset", $header, $all) });
      # PR_CAP_AMBIENT_RAISE of CAP_SYS_ADMIN.
      try_to("an ambient one", sub { sys("prctl", 47, 2, 21, 0, 0) });
    `,
  },
  {
    name: "take back the fences around itself",
    stoppedBy: "the kernel: neither no-new-privileges nor a filter can be taken back",
    sees: ["EINVAL", "on"],
    script: perl`
      my $status = content_of("/proc/self/status");
      try_to("no-new-privileges", sub { $status =~ /^NoNewPrivs:\s*1$/m ? "=on" : "=off" });
      try_to("the system call filter", sub { $status =~ /^Seccomp:\s*2$/m ? "=on" : "=off" });
      try_to("prctl no-new-privileges 0", sub { sys("prctl", 38, 0, 0, 0, 0) });
      try_to("prctl seccomp 0", sub { sys("prctl", 22, 0, 0, 0, 0) });
    `,
  },
  {
    name: "gain rights by a setuid program",
    stoppedBy: "no-new-privileges, and mounts that are nosuid",
    sees: ["unchanged"],
    script: perl`
      for my $directory (qw(/workspace /home /tmp /run /root)) {
        my $file = "$directory/as-root";
        system("cp", "/usr/bin/id", $file) == 0 or die "cp: $?";
        chmod 0755, $directory if $directory eq "/root";
        chown 0, 0, $file or die "chown: $!";
        chmod 04755, $file or die "chmod: $!";
        pipe(my $out, my $in) or die $!;
        my $child = fork() // die $!;
        if (!$child) {
          POSIX::setgid(1000) && POSIX::setuid(1000) or die "setuid: $!";
          open(STDOUT, ">&", $in);
          { exec $file, "-u" } POSIX::_exit(1);
        }
        close $in;
        my $id = <$out> // "";
        waitpid($child, 0);
        try_to($file, sub { $id eq "1000\n" ? "=unchanged" : "=id-$id" });
        unlink $file;
      }
    `,
  },
  {
    name: "give a file capabilities",
    stoppedBy: "the missing capability",
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      open(my $file, ">", "/workspace/capable") or die $!;
      close $file;
      my $all = pack("L5", 0x02000001, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff);
      try_to("setxattr", sub { sys("setxattr", "/workspace/capable", "security.capability", $all, 20, 0) });
      unlink "/workspace/capable";
    `,
  },
  {
    name: "become a user of the host",
    stoppedBy: "a user namespace: ids beyond its own 65,536 do not exist inside",
    sees: ["EINVAL"],
    script: perl`
      open(my $file, ">", "/workspace/owned") or die $!;
      close $file;
      for my $id (65536, 100_000, 1_879_113_728) {
        try_to("setuid $id", sub { POSIX::setuid($id) });
        try_to("setgid $id", sub { POSIX::setgid($id) });
        try_to("setgroups $id", sub { sys("setgroups", 1, pack("L", $id)) });
        try_to("chown $id", sub { chown $id, $id, "/workspace/owned" });
      }
      unlink "/workspace/owned";
    `,
  },
  {
    name: "change its user namespace's map of ids",
    stoppedBy: "the kernel: a map is written once, from outside",
    sees: ["EPERM"],
    script: perl`
      for my $file (qw(uid_map gid_map)) {
        try_to($file, sub {
          sysopen(my $map, "/proc/self/$file", O_WRONLY) or return undef;
          return syswrite($map, "0 0 4294967295");
        });
      }
    `,
  },
  {
    name: "lift its own limits",
    stoppedBy: "missing capabilities, and no cgroup files inside",
    sees: ["EPERM", "EACCES", "ENOENT", "EROFS"],
    script: perl`
      try_to("open files", sub { sys("prlimit64", 0, 7, pack("QQ", 1 << 19, 1 << 19), 0) });
      try_to("nice -20", sub { sys("setpriority", 0, 0, -20) });
      try_to("real-time scheduling", sub { sys("sched_setscheduler", 0, 1, pack("i", 1)) });
      try_to("real-time disk access", sub { sys("ioprio_set", 1, 0, 1 << 13) });
      try_to("out-of-memory score", sub {
        sysopen(my $score, "/proc/self/oom_score_adj", O_WRONLY) or return undef;
        return syswrite($score, "-1000");
      });
      for my $file (qw(memory.max pids.max cpu.max cgroup.procs memory/memory.limit_in_bytes pids/pids.max
        cpu/cpu.cfs_quota_us memory/release_agent memory/cgroup.procs)) {
        try_to("/sys/fs/cgroup/$file", sub { open_to_write("/sys/fs/cgroup/$file") });
      }
    `,
  },
  {
    name: "have a crash start the host's handler of core dumps",
    stoppedBy: "a limit with which the kernel gives up, and the system call filter, which keeps it",
    sees: ["unchanged"],
    script: perl`
      my %ways = (
        "as it is" => sub { 1 },
        "setrlimit" => sub { my ($core, $none) = (4, pack("QQ", 0, 0)); sys("setrlimit", $core, $none) },
        "prlimit64" => sub { my ($self, $core, $none) = (0, 4, pack("QQ", 0, 0)); sys("prlimit64", $self, $core, $none, $self) },
      );
      for my $way (sort keys %ways) {
        try_to($way, sub {
          $ways{$way}->() or return undef;
          return content_of("/proc/self/limits") =~ /^Max core file size +1 +1 /m ? "=unchanged" : "ok";
        });
      }
    `,
  },
  {
    name: "type into a terminal that someone else reads",
    stoppedBy: "the system call filter",
    sees: ["EPERM"],
    succeedsUnhardened: true,
    script: perl`
      POSIX::setsid();
      $SIG{HUP} = "IGNORE";
      sysopen(my $terminal, "/dev/ptmx", O_RDWR) or die "ptmx: $!";
      my $unlock = pack("i", 0);
      ioctl($terminal, 0x40045431, $unlock) or die "unlock: $!";
      my $number = pack("i", 0);
      ioctl($terminal, 0x80045430, $number) or die "number: $!";
      sysopen(my $end, "/dev/pts/" . unpack("i", $number), O_RDWR) or die "pts: $!";
      my $typed = "x";
      try_to("TIOCSTI", sub { ioctl($end, 0x5412, $typed) });
      # The kernel reads the lower half of the number alone.
      try_to("TIOCSTI with higher bits", sub { sys("ioctl", fileno($end), (1 << 32) + 0x5412, $typed) });
      try_to("TIOCLINUX", sub { ioctl($end, 0x541c, $typed) });
    `,
  },
]
