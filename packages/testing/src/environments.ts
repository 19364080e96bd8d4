import { closeSync, openSync, readSync } from "node:fs"

/** Longer than the environment of any program that a test starts. */
const MAX_ENVIRONMENT_BYTES = 1024 * 1024

/**
 * The start of a process's environment. Throws where it cannot be read. Another test may run a process whose environment
 * has no end, so no test reads a whole one.
 */
export const environmentOf = (pid: number): string => {
  const file = openSync(`/proc/${pid}/environ`, "r")
  try {
    const bytes = Buffer.alloc(MAX_ENVIRONMENT_BYTES)
    return bytes.toString("latin1", 0, readSync(file, bytes))
  } finally {
    closeSync(file)
  }
}

/** Perl that makes 1 TiB of zeros, of which the kernel makes a page when it is read. */
export const ENDLESS = "my ($at, $bytes) = (syscall(9, 0, 2 ** 40, 3, 0x4022, -1, 0), 2 ** 40)"
/** Perl that makes one variable of 128 MiB. */
export const ONE_VARIABLE =
  'my $long = "A" x 2 ** 27; my ($at, $bytes) = (unpack("Q", pack("P", $long)), 2 ** 27)'

/**
 * A program that makes memory its environment, as every process may, and prints a line with a full stop. The system calls
 * are mmap, brk and prctl on x64.
 */
export const withEnvironment = (memory: string): string => `exec perl -e '
  $| = 1;
  ${memory};
  open my $stat, "/proc/self/stat";
  my @of = split / /, <$stat> =~ s/.*\\) //r;
  my @own = (@of[23, 24, 42, 43, 44], syscall(12, 0), @of[25, 45, 46]);
  my $map = pack "Q12LL", @own, $at, $at + $bytes, 0, 0, 0xffffffff;
  syscall(157, 35, 14, $map, length $map, 0) == 0 or die;
  print "\\n.\\n";
  sleep 1000'`
