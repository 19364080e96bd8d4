import { run } from "@berth/host/run"
import { BerthError } from "@berth/protocol/errors"

/** The table of the kernel may hold hundreds of thousands of connections, and the host may be busy. */
const DEADLINE_MS = 10_000

/**
 * Makes the kernel forget the connections that were opened from these IPv4 addresses and ranges, so that a table of bounds that begins
 * to count counts all that there is: no rule can count a connection that the kernel has stored before. What still comes
 * of a forgotten connection opens a new one, which is counted. A host without perl keeps the old ones, uncounted.
 */
export const forgetConnections = async (
  ranges: readonly string[],
  signal: AbortSignal,
): Promise<void> => {
  if (ranges.length === 0) return
  const command = ["perl", "-e", FORGET, ...ranges] as const
  try {
    const { status, stderr } = await run(command, { signal, deadlineMs: DEADLINE_MS })
    if (status === 0) return
    throw new BerthError("backend.engine_failed", "the kernel did not forget open connections", {
      details: { status, engineSaid: stderr.trim() },
    })
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown
  }
}

/**
 * A program that asks the kernel (ctnetlink) for all tracked connections, and has it delete those whose first sender
 * lies in one of the ranges. Each is named by its first tuple (1), its id (12) and its zone (18), so that another that
 * has taken its place meanwhile stays; one that has ended meanwhile is no failure. It uses only the part of Perl that
 * Debian calls essential.
 */
const FORGET = `
use strict;
sub fail { print STDERR "$_[0]: $!\\n"; exit 1 }
my @ranges = map {
  my ($address, $bits) = split /\\//;
  my $mask = (0xffffffff << (32 - ($bits // 32))) & 0xffffffff;
  [unpack("N", pack("C4", split /\\./, $address)) & $mask, $mask];
} @ARGV;
socket(my $kernel, 16, 3, 12) or fail("netlink");
sub ask {
  my ($type, $flags, $body) = @_;
  my $message = pack("LSSLL", 20 + length $body, 0x100 | $type, $flags, 0, 0) . pack("CCn", 2, 0, 0) . $body;
  defined send($kernel, $message, 0) or fail("netlink");
}
sub answer {
  my ($each) = @_;
  while (1) {
    defined recv($kernel, my $bytes, 1 << 20, 0) or fail("netlink");
    while (length $bytes >= 20) {
      my ($length, $type) = unpack("LS", $bytes);
      my $body = substr($bytes, 16, $length - 16);
      substr($bytes, 0, ($length + 3) & ~3) = "";
      return 0 if $type == 3;
      return -unpack("l", $body) if $type == 2;
      $each->(substr($body, 4));
    }
  }
}
sub attributes {
  my ($bytes) = @_;
  my %found;
  while (length $bytes >= 4) {
    my ($length, $type) = unpack("SS", $bytes);
    last if $length < 4;
    $found{$type & 0x3fff} = [substr($bytes, 4, $length - 4), substr($bytes, 0, ($length + 3) & ~3)];
    substr($bytes, 0, ($length + 3) & ~3) = "";
  }
  return \\%found;
}
my @connections;
ask(1, 0x301, "");
$! = answer(sub {
  my $parts = attributes($_[0]);
  my $addresses = attributes(attributes($parts->{1}[0])->{1}[0]);
  my $sender = unpack("N", $addresses->{1}[0]);
  return unless grep { ($sender & $_->[1]) == $_->[0] } @ranges;
  push @connections, join "", map { $parts->{$_} ? $parts->{$_}[1] : () } 1, 12, 18;
}) and fail("list connections");
for my $connection (@connections) {
  ask(2, 5, $connection);
  $! = answer(sub {});
  fail("delete a connection") if $! && $! != 2;
}
`
