import { type Attempt, type GivenNetwork, perl, quoted } from "../attempt.ts"

const MIB = 1024 * 1024

/** The limits of the sandboxes that try to use everything up. */
export const EXHAUSTION_LIMITS = {
  pids: 64,
  openFiles: 128,
  tmpBytes: 2 * MIB,
  memoryBytes: 96 * MIB,
  cpus: 1,
} as const

/** The tolerance for small shared amounts: directories of a tmpfs take blocks of their own. */
const ALLOWANCE_BYTES = MIB

/** An engine gives a container's /dev this size, whatever it is asked for. */
const DEV_BYTES = 64 * MIB

/** Attempts to fill places that have a limit of their own. They report tries, as the other attempts do. */
export const FILLING_ATTEMPTS: readonly Attempt[] = [
  {
    name: "fill /tmp, /run, /dev/shm and the others in memory",
    stoppedBy: "the size of each: the limit `tmpBytes`, or less; 64 MiB of Docker's /dev",
    sees: ["ENOSPC"],
    script: perl`
      my $chunk = "x" x 65536;
      my %in_memory = map { $_ => 1 } content_of("/proc/self/mounts") =~ /^tmpfs (\S+) tmpfs /mg;
      # Where /var is the image's or /dev the sandbox's own, it is read-only.
      for my $directory (qw(/tmp /run /dev/shm /root), grep { $in_memory{$_} } qw(/dev /var /var/tmp)) {
        my $most = $directory eq "/dev" ? ${DEV_BYTES} : ${EXHAUSTION_LIMITS.tmpBytes};
        try_to($directory, sub {
          sysopen(my $file, "$directory/filled", O_WRONLY | O_CREAT, 0644) or return undef;
          my $written = 0;
          while (my $part = syswrite($file, $chunk)) {
            $written += $part;
            return "=more-than-its-size" if $written > $most + ${ALLOWANCE_BYTES};
          }
          my $error = $! + 0;
          unlink "$directory/filled";
          $! = $error;
          return undef;
        });
      }
    `,
  },
  {
    name: "use memory without end by packets that nobody reads",
    stoppedBy:
      "the limit `memoryBytes`; on hosts with cgroup v1, which do not count them there, a limit of their own",
    sees: ["its-share"],
    script: perl`
      my $large = pack("i", 4 << 20);
      my $part = "x" x 60_000;
      sub large_socket {
        my ($type) = @_;
        socket(my $socket, AF_INET, $type, 0) or return undef;
        setsockopt($socket, SOL_SOCKET, $_, $large) for SO_SNDBUF, SO_RCVBUF;
        fcntl($socket, F_SETFL, O_RDWR | O_NONBLOCK);
        return $socket;
      }
      # Both ends are kept, so that what was sent stays where it is.
      sub pairs {
        my ($type, $count) = @_;
        return map {
          my ($to, $from) = (large_socket($type), large_socket($type));
          bind($to, pack_sockaddr_in(0, INADDR_LOOPBACK));
          listen($to, 1) if $type == SOCK_STREAM;
          connect($from, getsockname($to));
          [$to, $from];
        } 1 .. $count;
      }
      # Docker's server sets the limit right after the start, for sockets that are made from then on.
      sub judged {
        my ($hold) = @_;
        for (1 .. 10) {
          return "=its-share" if $hold->() <= ${EXHAUSTION_LIMITS.memoryBytes};
          select(undef, undef, undef, 0.3);
        }
        return "=more-than-its-share";
      }
      try_to("streams", sub { judged(sub {
        my ($held, @pairs) = (0, pairs(SOCK_STREAM, 50));
        for my $pair (@pairs) {
          while (my $sent = syswrite($pair->[1], $part)) { $held += $sent }
        }
        return $held;
      }) });
      try_to("datagrams", sub { judged(sub {
        my ($held, @pairs) = (0, pairs(SOCK_DGRAM, 50));
        for my $pair (@pairs) { send($pair->[1], $part, 0) for 1 .. 60 }
        for my $pair (@pairs) { $held += length $part while defined recv($pair->[0], my $read, 65536, 0) }
        return $held;
      }) });
    `,
  },
  {
    name: "leave closed connections without end",
    stoppedBy: "a number of its own, beyond which the kernel forgets them at once",
    sees: ["its-share"],
    script: perl`
      socket(my $to, AF_INET, SOCK_STREAM, 0) or die $!;
      listen($to, 16) or die $!;
      my $where = getsockname($to);
      try_to("on the loopback", sub {
        for (1 .. 9_000) {
          socket(my $from, AF_INET, SOCK_STREAM, 0) or return undef;
          connect($from, $where) or return undef;
          accept(my $accepted, $to) or return undef;
          close $from;
        }
        my ($closed) = content_of("/proc/net/sockstat") =~ /^TCP:.* tw (\d+)/m;
        return $closed > 8_192 ? "=more-than-its-share" : "=its-share";
      });
    `,
  },
  {
    name: "open terminals without end",
    stoppedBy:
      "a number of its own, 256; the host has 3,072 for all sandboxes, and 1,024 more for itself",
    sees: ["ENOSPC"],
    script: perl`
      try_to("in several processes", sub {
        my @children;
        my $error = 0;
        while (!$error && @children < 8) {
          pipe(my $read, my $write);
          my $child = fork() // die "fork: $!";
          if (!$child) {
            my @open;
            while (@open < 100 && sysopen(my $terminal, "/dev/ptmx", O_RDWR | O_NOCTTY)) { push @open, $terminal }
            syswrite($write, (@open < 100 ? $! + 0 : 0) . "\n");
            sleep 1 while 1;
          }
          close $write;
          push @children, $child;
          $error = <$read> + 0;
        }
        kill "KILL", @children;
        $! = $error;
        return !$error;
      });
    `,
  },
  {
    name: "open files without end",
    stoppedBy: "the limit `openFiles`",
    sees: ["EMFILE"],
    script: perl`
      my @open;
      try_to("files", sub {
        while (@open <= ${EXHAUSTION_LIMITS.openFiles}) {
          sysopen(my $file, "/etc/passwd", O_RDONLY) or return undef;
          push @open, $file;
        }
        return "ok";
      });
    `,
  },
]

/** An attempt without tries: its outcome is seen from outside. */
export interface Endless {
  readonly name: string
  readonly stoppedBy: string
  readonly sees: readonly string[]
  readonly script: string
}

/** A script writes this when it has got as far as it can. */
export const AT_THE_END = "at the end"

export const FORK_BOMB: Endless = {
  name: "start processes without end",
  stoppedBy: "the limit `pids`: other sandboxes and the host go on, and it can be removed",
  sees: ["EAGAIN"],
  script: perl`
    $SIG{CHLD} = "IGNORE";
    my ($first, $told) = ($$, 0);
    while (1) {
      my $child = fork();
      next if defined $child;
      print "${AT_THE_END}: ", ($!{EAGAIN} ? "EAGAIN" : $!), "\n" if $$ == $first && !$told++;
    }
  `,
}

export const MEMORY_BOMB: Endless = {
  name: "use memory without end",
  stoppedBy: "the limit `memoryBytes`; the sandbox's status tells it from any other end",
  sees: ["SIGKILL"],
  script: perl`my @all; push @all, "x" x (1 << 20) while 1;`,
}

export const MEMORY_BY_FILES: Endless = {
  name: "use memory without end by files in /dev/shm",
  stoppedBy: "the limit `memoryBytes`, which counts files in memory as well",
  sees: ["SIGKILL"],
  script: perl`
    open(my $file, ">", "/dev/shm/full") or die $!;
    my $chunk = "x" x (1 << 20);
    while (1) { syswrite($file, $chunk) or die "write: $!" }
  `,
}

export const OUTPUT_FLOOD: Endless = {
  name: "write output without end",
  stoppedBy: "a log of bounded size, of which the end is kept",
  sees: ["success"],
  script: perl`
    my $part = "x" x 1023;
    print $part for 1 .. 10_000;
    print "$part\n" for 1 .. 10_000;
    print "${AT_THE_END}\n";
  `,
}

export const DISK_FILL: Endless = {
  name: "fill /workspace",
  stoppedBy:
    "nothing but the size of the disk that holds the data directory; the server still stops and removes it",
  sees: ["ENOSPC"],
  script: perl`
    sysopen(my $file, "/workspace/full", O_WRONLY | O_CREAT, 0644) or die $!;
    my $chunk = "x" x 65536;
    my $size = 0;
    sub fill { while (my $part = syswrite($file, $chunk)) { $size += $part } return $!{ENOSPC} ? "ENOSPC" : $! }
    my $end = fill();
    # Its words need a little room on the same disk.
    truncate($file, $size -= 65536);
    seek($file, $size, 0);
    print "${AT_THE_END}: $end\n";
    sleep 1;
    while (1) { fill(); select(undef, undef, undef, 0.01) }
  `,
}

/** Leaves a process behind that has no tie to the first one except that both are inside. */
export const outlivingScript = (token: string): string => perl`
  if (!fork()) {
    POSIX::setsid();
    if (!fork()) {
      $SIG{$_} = "IGNORE" for qw(HUP TERM INT QUIT);
      open(STDIN, "<", "/dev/null");
      open(STDOUT, ">", "/dev/null");
      open(STDERR, ">", "/dev/null");
      exec "/bin/sh", "-c", "trap '' TERM HUP; while :; do sleep 600; done", ${quoted(token)};
    }
    POSIX::_exit(0);
  }
  wait;
  print "left\n";
`
export const OUTLIVING = {
  name: "leave a process behind",
  stoppedBy: "its process namespace, which ends with the first process, and its cgroup",
  sees: ["SIGKILL"],
} as const

/** More packets than one sandbox may have connections on any host. */
const FLOOD_PACKETS = 3_000

export const CONNECTION_FLOOD = {
  name: "use up the connections that the host's kernel tracks",
  stoppedBy:
    "bounds for each sandbox and for all together, on open connections and on new ones in a second",
  sees: ["ECONNREFUSED"],
} as const

/**
 * Sends floods of packets. Packets that come too fast are lost, so a later flood may be the first to reach the bound.
 */
export const connectionFloodScript = ({
  internet,
  ports,
}: Pick<GivenNetwork, "internet" | "ports">): string => perl`
  socket(my $socket, AF_INET, SOCK_DGRAM, 0) or die $!;
  my @ports = (10_001 .. ${10_000 + FLOOD_PACKETS});
  try_to("one more", sub {
    my $heard;
    for (1 .. 5) {
      send($socket, "flood", 0, pack_sockaddr_in($_, inet_aton(${quoted(internet)}))) for @ports;
      $heard = dial(${quoted(internet)}, ${ports.any}) or return undef;
    }
    return $heard;
  });
  sleep 1 while 1;
`

/** A queue, a signal and a timer, which are bounded by limits of a process, whatever its user. */
export const LIMITED_PROBES = perl`
  try_to("a message queue", sub { sys("mq_open", "probe-$$", O_CREAT | O_RDWR, 0600, 0) });
  sys("mq_unlink", "probe-$$");
  my $timer = "\0" x 8;
  try_to("a timer", sub { sys("timer_create", 1, 0, $timer) });
  POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new(40));
  try_to("a signal", sub { sys("rt_sigqueueinfo", $$ + 0, 40, pack("iii x4", 40, 0, -1) . "\0" x 112) });
`

/** Resources that other sandboxes and the host must still be able to take. */
export const COUNTED_PROBES = perl`
  try_to("an instance of inotify", sub { sys("inotify_init1", 0) });
  for my $call (qw(msgget semget shmget)) {
    my @of = $call eq "msgget" ? () : $call eq "semget" ? (1) : (4096);
    my $id = 0;
    try_to($call, sub { $id = sys($call, 0, @of, 01600) });
    if ($call eq "msgget") { sys("msgctl", $id + 0, 0, 0) }
    if ($call eq "semget") { sys("semctl", $id + 0, 0, 0, 0) }
    if ($call eq "shmget") { sys("shmctl", $id + 0, 0, 0) }
  }
  ${LIMITED_PROBES}
`

/** Uses up queues and signals, as every user that the sandbox has. */
export const LIMITED = perl`
  my $signal = 40;
  # SI_QUEUE, as sigqueue(3) sends it.
  my $information = pack("iii x4", $signal, 0, -1) . "\0" x 112;
  my $end = "";
  for my $user (0 .. 9) {
    pipe(my $read, my $write);
    if (!fork()) {
      POSIX::setgid(1000 + $user);
      POSIX::setuid(1000 + $user);
      my $queues = 0;
      $queues++ while sys("mq_open", "queue-$user-$queues", O_CREAT | O_RDWR, 0600, 0);
      POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new($signal));
      1 while sys("rt_sigqueueinfo", $$ + 0, $signal, $information);
      syswrite($write, $!{EAGAIN} ? "EAGAIN" : "$!");
      close $write;
      sleep 1 while 1;
    }
    close $write;
    $end = <$read>;
  }
  print "${AT_THE_END}: $end\n";
  sleep 1 while 1;
`

export const COUNTED: Endless = {
  name: "use up resources that the kernel counts per user",
  stoppedBy: "a user namespace that is a user's of its own, not the host's root's",
  sees: ["EAGAIN"],
  script: perl`
    1 while sys("inotify_init1", 0);
    1 while sys("msgget", 0, 01600);
    1 while sys("shmget", 0, 4096, 01600);
    my $sets = 0;
    $sets++ while $sets < 40_000 && sys("semget", 0, 1, 01600);
    my $queues = 0;
    $queues++ while sys("mq_open", "queue-$queues", O_CREAT | O_RDWR, 0600, 0);
    my $signal = 40;
    POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new($signal));
    # SI_QUEUE, as sigqueue(3) sends it.
    my $information = pack("iii x4", $signal, 0, -1) . "\0" x 112;
    1 while sys("rt_sigqueueinfo", $$ + 0, $signal, $information);
    print "${AT_THE_END}: ", ($!{EAGAIN} ? "EAGAIN" : $!), "\n";
    sleep 1 while 1;
  `,
}

/** Resources that are counted by a user's id on the host, whatever its namespace. */
const NUMBERED = perl`
  socketpair(my $near, my $far, AF_UNIX, SOCK_DGRAM, 0) or die $!;
  $near->blocking(0);
  # As many descriptors as one message takes, on their way to nobody.
  sub send_descriptors {
    my $byte = "x";
    my $parts = pack("P Q", $byte, 1);
    my $rights = pack("Q i i i253", 16 + 4 * 253, 1, 1, (fileno $far) x 253) . "\0" x 4;
    my $message = pack("Q L x4 P Q P Q i x4", 0, 0, $parts, 1, $rights, length $rights, 0);
    return sys("sendmsg", fileno $near, $message, 0);
  }
  my @pipes;
  sub large_pipe {
    pipe(my $read, my $write) or return undef;
    push @pipes, $read, $write;
    return fcntl($write, 1031, 1 << 20);
  }
`

/** Resources that another sandbox must still be able to take. */
export const NUMBERED_PROBES = perl`
  ${NUMBERED}
  try_to("descriptors on their way", \&send_descriptors);
  try_to("a large pipe", \&large_pipe);
`

export const COUNTED_BY_NUMBER: Endless = {
  name: "use up resources that the kernel counts per user id of the host",
  stoppedBy: "a range of ids of its own, where the host can map the ids of files",
  sees: ["ETOOMANYREFS"],
  script: perl`
    ${NUMBERED}
    1 while large_pipe();
    1 while send_descriptors();
    print "${AT_THE_END}: ", ($!{ETOOMANYREFS} ? "ETOOMANYREFS" : $!), "\n";
    sleep 1 while 1;
  `,
}

export const ENDLESS: readonly Pick<Endless, "name" | "stoppedBy" | "sees">[] = [
  FORK_BOMB,
  MEMORY_BOMB,
  MEMORY_BY_FILES,
  OUTPUT_FLOOD,
  DISK_FILL,
  OUTLIVING,
  COUNTED,
  COUNTED_BY_NUMBER,
  CONNECTION_FLOOD,
]
