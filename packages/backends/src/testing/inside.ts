import { type Attempt, type Given, SECRET_DIGITS } from "./attempt.ts"
import { callNumbers } from "./calls.ts"

/** An attempt that hangs is ended after this long; the slowest takes a second or two on a busy machine. */
const ATTEMPT_DEADLINE_S = 20

/** The outcome of a try: the name of an error, `ok`, or a word of the attempt's own. */
export interface Try {
  readonly what: string
  readonly outcome: string
}

export interface Tried {
  readonly tries: readonly Try[]
  /** The rest of the output: Perl's complaints, for the most part. */
  readonly said: readonly string[]
  /** The exit status; undefined while the attempt has not ended. */
  readonly status: number | undefined
}

/** A command that makes the attempts, one after another, each in a process of its own. */
export const tryingCommand = (
  attempts: readonly Attempt[],
  given: Given,
  architecture: NodeJS.Architecture,
): string[] => {
  const scripts = attempts.flatMap(({ name, script }) => [
    name,
    typeof script === "string" ? script : script(given),
  ])
  return ["/usr/bin/perl", "-e", prelude(architecture) + DRIVER, "--", ...scripts]
}

/**
 * The functions for an attempt's script. They use only what Debian's perl-base has: images may have no more of Perl.
 */
export const prelude = (architecture: NodeJS.Architecture): string =>
  String.raw`
use strict; use warnings; use Errno; use Fcntl qw(:DEFAULT :mode); use POSIX (); use Socket;
$| = 1;
my %CALLS = (${callNumbers(architecture)});
my $SECRET = qr/(host|server|neighbour|own)-secret-[0-9a-f]{${SECRET_DIGITS}}/;

# A system call; its result, which is true if it succeeds. Texts are passed as pointers.
sub sys {
  my ($name, @args) = @_;
  my $number = $CALLS{$name} // die "no number for $name";
  my $result = syscall($number, @args);
  return $result == -1 ? undef : $result || "0E0";
}
# Tries something and prints its outcome: an error for a false result, the rest of a result that begins with "=".
sub try_to {
  my ($what, $code) = @_;
  $! = 0;
  my $result = $code->();
  my ($error) = sort grep { $!{$_} } keys %!;
  my $outcome = !$result ? $error // "failed" : $result =~ /^=(.*)/ ? $1 : "ok";
  print "try $what: $outcome\n";
}
sub open_to_write { sysopen(my $file, $_[0], O_WRONLY) }
sub content_of {
  my ($path) = @_;
  sysopen(my $file, $path, O_RDONLY | O_NONBLOCK) or return undef;
  defined(sysread($file, my $text, 1 << 20)) or return undef;
  return $text;
}
# Calls back with every path below a directory that is no directory.
sub each_file {
  my ($directory, $skip, $visit) = @_;
  opendir(my $open, $directory) or return;
  for my $name (readdir $open) {
    next if $name eq "." || $name eq "..";
    my $path = ($directory eq "/" ? "" : $directory) . "/$name";
    next if $skip->{$path} || !lstat $path;
    if (-d _) { each_file($path, $skip, $visit) } else { $visit->($path) }
  }
}
# The ids of the processes inside.
sub processes { opendir(my $proc, "/proc"); return grep { /^\d+$/ } readdir $proc }
# The outcome of a connection by TCP: "=heard" where a listener of the test answers.
sub dial {
  my ($address, $port) = @_;
  my $family = $address =~ /:/ ? AF_INET6 : AF_INET;
  my $where = Socket::inet_pton($family, $address);
  my $to = $family == AF_INET6 ? Socket::pack_sockaddr_in6($port, $where) : pack_sockaddr_in($port, $where);
  socket(my $socket, $family, SOCK_STREAM, 0) or return undef;
  return heard_on($socket, $to);
}
sub dial_unix {
  my ($name) = @_;
  socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or return undef;
  return heard_on($socket, pack_sockaddr_un($name));
}
sub heard_on {
  my ($socket, $to) = @_;
  local $SIG{ALRM} = sub { die "silence\n" };
  return eval {
    alarm 3;
    my $connected = connect($socket, $to);
    my $error = $! + 0;
    my $text = "";
    $text = <$socket> // "" if $connected;
    alarm 0;
    $! = $error;
    $connected && ($text =~ / hears / ? "=heard" : "=connected");
  } || ($@ ? "=silence" : undef);
}
`

const DRIVER = String.raw`
open(STDERR, ">&", \*STDOUT);
while (my ($name, $script) = splice(@ARGV, 0, 2)) {
  print "<<$name>>\n";
  my $child = fork() // die "fork: $!";
  if (!$child) {
    alarm ${ATTEMPT_DEADLINE_S};
    eval "$script; 1" or die $@;
    exit 0;
  }
  waitpid($child, 0);
  print "\n<<end $?>>\n";
}
`

/** Reads the outcome of each attempt, by its name. */
/** The command that runs a script with the functions of the attempts. */
export const running = (script: string): [string, ...string[]] => [
  "/usr/bin/perl",
  "-e",
  `${prelude(process.arch)}${script}`,
]

export const readTried = (output: string): ReadonlyMap<string, Tried> => {
  const all = new Map<string, { tries: Try[]; said: string[]; status: number | undefined }>()
  let current: { tries: Try[]; said: string[]; status: number | undefined } | undefined
  for (const line of output.split("\n")) {
    const end = /^<<end (\d+)>>$/.exec(line)
    const begin = /^<<(.+)>>$/.exec(line)
    const tried = /^try (.+): ([^:]+)$/.exec(line)
    if (end?.[1] !== undefined) {
      if (current) current.status = Number(end[1])
      current = undefined
    } else if (begin?.[1] !== undefined) {
      current = { tries: [], said: [], status: undefined }
      all.set(begin[1], current)
    } else if (tried?.[1] !== undefined && tried[2] !== undefined) {
      current?.tries.push({ what: tried[1], outcome: tried[2] })
    } else if (line !== "") {
      current?.said.push(line)
    }
  }
  return all
}
