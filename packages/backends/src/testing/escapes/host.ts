import { type Attempt, perl, quoted } from "../attempt.ts"

/** Attempts on the host's files, processes, devices and sockets. */
export const HOST_ATTEMPTS: readonly Attempt[] = [
  {
    name: "read the host's files by their paths",
    stoppedBy: "a root directory, a mount namespace and a process namespace of its own",
    sees: ["ENOENT"],
    script: ({ hostFiles }) => perl`
      my @ways = ("", "/proc/1/root", "/proc/1/cwd/../../../..", "/proc/self/root/../../..", "/proc/self/cwd/../../../..");
      for my $file (${hostFiles.map(quoted).join(", ")}) {
        for my $way (@ways) { try_to("$way$file", sub { content_of("$way$file") }) }
      }
    `,
  },
  {
    name: "read the host's password hashes",
    stoppedBy: "an /etc of its own",
    sees: ["ENOENT", "its-own"],
    script: ({ hostShadow }) => perl`
      for my $way ("", "/proc/1/root", "/proc/self/root/../..") {
        for my $name (qw(shadow shadow- gshadow)) {
          my $file = "$way/etc/$name";
          try_to($file, sub {
            defined content_of($file) or return undef;
            my ($sum) = split " ", qx(sha256sum $file);
            return $sum eq ${quoted(hostShadow)} ? "=the-hosts" : "=its-own";
          });
        }
      }
    `,
  },
  {
    name: "search every file inside for a secret of the host or the server",
    stoppedBy: "nothing of the host is inside but the listed, public part of its system",
    sees: ["only-its-own"],
    script: perl`
      my $own = "/tmp/planted";
      open(my $file, ">", $own) or die $!;
      print $file "own-secret-", "0" x 32;
      close $file;
      my %found;
      # The directories left out hold the public system, or have attempts of their own.
      each_file("/", { map { $_ => 1 } qw(/proc /sys /usr) }, sub {
        my ($path) = @_;
        $found{$path} = 1 if $path =~ $SECRET;
        return if !-f $path || -s _ > 1 << 20;
        $found{$path} = 1 if (content_of($path) // "") =~ $SECRET;
      });
      unlink $own;
      # The search is a real one only if it finds what is there.
      my $kept = delete $found{$own};
      try_to("the whole tree", sub { $kept && !%found ? "=only-its-own" : "=found-" . join(",", keys %found) });
    `,
  },
  {
    name: "read the environment and arguments of a process of the host",
    stoppedBy: "a process namespace of its own: no process outside has a number inside",
    sees: ["nothing"],
    script: perl`
      for my $file (qw(environ cmdline maps)) {
        my @found = grep { (content_of("/proc/$_/$file") // "") =~ $SECRET } processes();
        try_to($file, sub { @found ? "=found" : "=nothing" });
      }
      try_to("the first process's parent", sub {
        content_of("/proc/1/status") =~ /^PPid:\t0$/m ? "=nothing" : "=found";
      });
    `,
  },
  {
    name: "signal, trace or read the memory of a process outside",
    stoppedBy: "a process namespace of its own",
    sees: ["ESRCH"],
    script: perl`
      my %inside = map { $_ => 1 } processes();
      my $most = content_of("/proc/sys/kernel/pid_max") // 32768;
      $most = 65536 if $most > 65536;
      my $buffer = "\0" x 8;
      my ($here, $there) = (pack("PQ", $buffer, 8), pack("QQ", 4096, 8));
      my %ways = (
        "signal" => sub { kill 0, $_[0] },
        "ptrace" => sub { sys("ptrace", 0x4206, $_[0], 0, 0) },
        "pidfd_open" => sub { sys("pidfd_open", $_[0], 0) },
        "process_vm_readv" => sub { sys("process_vm_readv", $_[0], $here, 1, $there, 1, 0) },
      );
      for my $way (sort keys %ways) {
        my %ends;
        for my $pid (1 .. $most) {
          next if $inside{$pid} || $pid == $$;
          $! = 0;
          $ends{$ways{$way}->($pid) ? 0 : $! + 0} = $pid;
        }
        for my $end (keys %ends) { try_to("$way, as of process $ends{$end}", sub { $! = $end; $end == 0 }) }
      }
      # A process outside that gets this signal reports it; processes inside take no harm.
      kill "CONT", -1;
    `,
  },
  {
    name: "read the kernel's memory and log",
    stoppedBy: "masked files of /proc and /sys, and a /dev of its own",
    sees: ["ENOENT", "EACCES", "EPERM", "empty", "zeros"],
    script: perl`
      my @files = map { "/proc/$_" } qw(kcore kmsg kallsyms keys timer_list sched_debug slabinfo vmallocinfo kpagecount
        kpageflags pagetypeinfo interrupts);
      push @files, map { "/dev/$_" } qw(mem kmem port core kmsg);
      push @files, map { "/sys/$_" } qw(kernel/debug/sched/debug kernel/tracing/trace kernel/security/lsm
        firmware/acpi/tables/DSDT firmware/efi/runtime firmware/dmi/tables/DMI fs/bpf/maps.debug);
      for my $file (@files) {
        try_to($file, sub {
          my $text = content_of($file);
          return undef if !defined $text;
          return "=empty" if $text eq "";
          return $text =~ /^(0+ \S \S+(\t\S+)?\n)*(0\S*)?$/ ? "=zeros" : "ok";
        });
      }
    `,
  },
  {
    name: "open a disk or another device of the host",
    stoppedBy: "a /dev of its own with the harmless devices alone",
    sees: ["ENOENT", "harmless"],
    script: perl`
      my @names = map { s/^.*\///r } glob("/sys/block/* /sys/class/misc/* /sys/class/tty/ttyS*");
      for my $name (sort @names, qw(sda vda nvme0n1 kvm fuse net/tun vsock vhost-net userfaultfd uinput console rtc0)) {
        try_to("/dev/$name", sub { sysopen(my $device, "/dev/$name", O_RDWR | O_NONBLOCK) });
      }
      my %harmless = map { $_ => 1 } qw(null zero full random urandom tty console ptmx);
      each_file("/dev", {}, sub {
        my ($path) = @_;
        my $name = substr $path, 5;
        return if -l $path || $name =~ m{^(shm|mqueue|pts)/};
        try_to($path, sub { $harmless{$name} && -c $path ? "=harmless" : "=another" });
      });
    `,
  },
  {
    name: "make a device and open it",
    stoppedBy: "the missing capability; the mounts inside are nodev as well",
    sees: ["EPERM"],
    script: perl`
      my @devices = ([block => S_IFBLK(), 254, 0], [block => S_IFBLK(), 8, 0], [mem => S_IFCHR(), 1, 1], [kvm => S_IFCHR(), 10, 232], [fuse => S_IFCHR(), 10, 229]);
      for my $directory (qw(/dev /tmp /workspace /run)) {
        for my $device (@devices) {
          my ($name, $type, $major, $minor) = @$device;
          my $path = "$directory/made-$name-$major";
          try_to("$path", sub {
            sys("mknodat", -100, $path, $type | 0666, $major << 8 | $minor) && sysopen(my $file, $path, O_RDONLY);
          });
        }
      }
    `,
  },
  {
    name: "change the devices that it shares with the host",
    stoppedBy:
      "an overlay of its own over them, read-only, and behind it a user namespace: they belong to the host's root, who is nobody inside",
    sees: ["EROFS", "EPERM"],
    script: perl`
      for my $name (qw(null zero full random urandom tty)) {
        my ($mode, $owner, $group) = (stat "/dev/$name")[2, 4, 5];
        try_to("chmod /dev/$name", sub { chmod $mode & 07777, "/dev/$name" });
        try_to("chown /dev/$name", sub { chown 0, 0, "/dev/$name" });
      }
    `,
  },
  {
    name: "use a file that its runtime left open",
    stoppedBy:
      "the runtime closes all but the three standard ones: pipes, or the /dev/null that is inside",
    sees: ["pipe", "its-own"],
    script: perl`
      for my $process (1, $$) {
        for my $file (glob "/proc/$process/fd/*") {
          my $target = readlink($file) // next;
          # The directory that glob itself reads.
          next if $target =~ m{^/proc/\d+/fd$};
          try_to($file, sub {
            return "=pipe" if $target =~ /^pipe:/;
            my @identity = map { join ":", (stat $_)[0, 1] } $file, "/dev/null";
            return $identity[0] eq $identity[1] ? "=its-own" : "=another";
          });
        }
      }
    `,
  },
  {
    name: "overwrite the program that runs as its first process",
    stoppedBy: "it is a copy on a read-only root",
    sees: ["EROFS", "EACCES", "ETXTBSY"],
    script: perl`
      for my $file ("/proc/1/exe", readlink("/proc/1/exe")) {
        try_to("write $file", sub { open_to_write($file) });
        try_to("truncate $file", sub { sys("truncate", $file, 0) });
      }
    `,
  },
  {
    name: "speak to a socket of the server",
    stoppedBy:
      "mount and network namespaces of its own: neither paths nor abstract names lead there",
    sees: ["ENOENT", "ECONNREFUSED", "unlisted"],
    script: ({ serverSockets: { path, abstract } }) => perl`
      my ($path, $name) = (${quoted(path)}, ${quoted(abstract)});
      try_to("by its path", sub { dial_unix($path) });
      try_to("by its path from the first process's root", sub { dial_unix("/proc/1/root$path") }) if length $path < 90;
      try_to("by its abstract name", sub { dial_unix("\0$name") });
      try_to("in /proc/net/unix", sub { index(content_of("/proc/net/unix"), $name) < 0 ? "=unlisted" : "=listed" });
      for my $socket (qw(/var/run/docker.sock /run/containerd/containerd.sock /run/crio/crio.sock /run/podman/podman.sock /run/dbus/system_bus_socket /run/systemd/private)) {
        try_to($socket, sub { dial_unix($socket) });
      }
    `,
  },
]
