import { type Attempt, perl, SECRET_DIGITS } from "../attempt.ts"

/** The names of the neighbour's objects. Each is in a namespace of its own, so the names are free everywhere. */
const NAME = "isolation-neighbour"
const KEY = "0x626e"
const PLACES = ["/workspace", "/home", "/tmp", "/run", "/root", "/dev/shm"]
const FILES = `map { "$_/${NAME}" } qw(${PLACES.join(" ")})`

/** The neighbour's message once it has everything that others look for, with its address. */
export const NEIGHBOUR_READY = /^ready at (\S+)$/m

/**
 * The program of the sandbox that others try to reach: it has files, sockets, shared memory and a secret in its
 * environment, and listens on its network. Asked to end, it tells what it still has, and who signalled it.
 */
export const neighbourScript = (port: number, internet: string): string => perl`
  my $secret = $ENV{NEIGHBOUR_SECRET};
  my @files = ${FILES};
  for my $path (@files) { open(my $file, ">", $path) or die "$path: $!"; print $file $secret; close $file }
  my $size = length $secret;
  my $memory = sys("shmget", ${KEY}, $size, 01666) // die "shmget: $!";
  shmwrite($memory, $secret, 0, $size) or die "shmwrite: $!";
  sys("semget", ${KEY}, 1, 01666) // die "semget: $!";
  sys("msgget", ${KEY}, 01666) // die "msgget: $!";
  sys("mq_open", "${NAME}", O_CREAT | O_RDWR, 0666, 0) // die "mq_open: $!";
  my @listeners;
  for my $name ("\0${NAME}", "/tmp/${NAME}.socket", "/workspace/${NAME}.socket") {
    socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or die $!;
    bind($socket, pack_sockaddr_un($name)) && listen($socket, 9) or die "$name: $!";
    push @listeners, $socket;
  }
  socket(my $tcp, AF_INET, SOCK_STREAM, 0) or die $!;
  bind($tcp, pack_sockaddr_in(${port}, INADDR_ANY)) && listen($tcp, 9) or die "tcp: $!";
  push @listeners, $tcp;
  # The address that it would reach the internet with; nothing is sent.
  socket(my $udp, AF_INET, SOCK_DGRAM, 0);
  my $own = connect($udp, pack_sockaddr_in(9, inet_aton("${internet}"))) ? inet_ntoa((unpack_sockaddr_in(getsockname $udp))[1]) : "nowhere";
  my ($signals, $ending) = (0, 0);
  $SIG{CONT} = $SIG{USR1} = sub { $signals++ };
  $SIG{TERM} = sub { $ending = 1 };
  print "ready at $own\n";
  while (!$ending) {
    my $ready = "";
    vec($ready, fileno($_), 1) = 1 for @listeners;
    # A signal between the loop's test and this call waits for a second at most.
    next if select($ready, undef, undef, 1) < 1;
    for my $listener (@listeners) {
      next if !vec($ready, fileno($listener), 1);
      accept(my $caller, $listener) or next;
      syswrite($caller, "neighbour hears $own\n");
    }
  }
  for my $path (@files) { try_to("file $path", sub { (content_of($path) // "") eq $secret ? "=kept" : "=lost" }) }
  shmread($memory, my $read, 0, $size);
  try_to("memory", sub { $read eq $secret ? "=kept" : "=lost" });
  try_to("signals", sub { $signals == 0 ? "=kept" : "=heard" });
`

/** Attempts on another sandbox of the same installation, whose processes have the same ids outside. */
export const NEIGHBOUR_ATTEMPTS: readonly Attempt[] = [
  {
    name: "read another sandbox's files",
    stoppedBy: "directories, a mount namespace and a process namespace of its own",
    sees: ["ENOENT"],
    script: perl`
      for my $path (${FILES}) {
        for my $way ("", "/proc/1/root", "/proc/self/root/..") { try_to("$way$path", sub { content_of("$way$path") }) }
      }
      for my $place (qw(/workspace/.. /home/.. /workspace/../workspace /home/../workspace)) {
        try_to("$place/${NAME}", sub { content_of("$place/${NAME}") });
      }
    `,
  },
  {
    name: "speak to another sandbox's sockets",
    stoppedBy:
      "mount and network namespaces of its own: neither paths nor abstract names lead there",
    sees: ["ENOENT", "ECONNREFUSED", "unlisted"],
    script: perl`
      try_to("by its abstract name", sub { dial_unix("\0${NAME}") });
      for my $path (qw(/tmp/${NAME}.socket /workspace/${NAME}.socket)) { try_to($path, sub { dial_unix($path) }) }
      try_to("in /proc/net/unix", sub { content_of("/proc/net/unix") =~ /${NAME}/ ? "=listed" : "=unlisted" });
    `,
  },
  {
    name: "open another sandbox's shared memory, semaphores and queues",
    stoppedBy: "an IPC namespace and a /dev/shm of its own",
    sees: ["ENOENT"],
    script: perl`
      try_to("shmget", sub { sys("shmget", ${KEY}, ${"neighbour-secret-".length + SECRET_DIGITS}, 0666) });
      try_to("semget", sub { sys("semget", ${KEY}, 1, 0666) });
      try_to("msgget", sub { sys("msgget", ${KEY}, 0666) });
      try_to("mq_open", sub { sys("mq_open", "${NAME}", O_RDWR, 0, 0) });
      try_to("/dev/mqueue", sub { content_of("/dev/mqueue/${NAME}") });
      try_to("/dev/shm", sub { content_of("/dev/shm/${NAME}") });
    `,
  },
]
