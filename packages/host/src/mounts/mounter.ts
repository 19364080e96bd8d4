import { MAP_OPTION } from "./mapped.ts"
import type { MountCommand } from "./trial.ts"
import { WRITER_OPTION } from "./written-by.ts"

/** Numbers of system calls that differ between architectures. */
const CALLS = {
  x64: { mount: 165, clone: 56, capget: 125, capset: 126, setfsuid: 122, prctl: 157 },
  arm64: { mount: 40, clone: 220, capget: 90, capset: 91, setfsuid: 151, prctl: 167 },
} as const

/** The command that mounts the entries of a table; undefined where the host has no perl. */
export const mountCommand = (
  perl: string | undefined,
  architecture: keyof typeof CALLS,
): MountCommand | undefined =>
  perl === undefined ? undefined : [perl, "-e", mountingProgram(architecture)]

/**
 * A program that mounts the entries of a table in the form of fstab(5), as `mount --all` does. It also has overlays
 * write as a user who is not root, which mount(8) refuses, and maps ids, which mount(8) does from util-linux 2.39 on.
 * Its arguments are the table, the directory that options are relative to and, if the table does not exist yet, a
 * descriptor on which a line says that it does. It uses only the part of Perl that Debian calls essential. A map is
 * that of a user namespace, which the program makes by cloning a process into one. That process ends with the program,
 * whatever ends it: it reads from a pipe whose other end the program holds. A mount keeps the map.
 */
const mountingProgram = (architecture: keyof typeof CALLS): string => {
  const { mount, clone, capget, capset, setfsuid, prctl } = CALLS[architecture]
  return `
use strict;
my ($table, $base, $word) = @ARGV;
my $empty = "";
# It ends with the shell that started it: nothing is mounted for a sandbox that is removed meanwhile.
syscall(${prctl}, 1, 9);
sub check { my ($worked, $what) = @_; return if $worked; print STDERR "$what: $!\\n"; exit 1 }
my %namespaces;
sub namespace_of {
  my ($map) = @_;
  return $namespaces{$map} if $namespaces{$map};
  my $lines = join "", map { "$_->[1] $_->[2] $_->[3]\\n" } map { [split /:/] } split / /, $map;
  check(pipe(my $end, my $held), "pipe");
  my $child = syscall(${clone}, 0x10000000 | 17, 0, 0, 0, 0);
  check($child >= 0, "a user namespace");
  if ($child == 0) { close $held; sysread($end, my $nothing, 1); kill "KILL", $$ }
  for my $file ("uid_map", "gid_map") {
    check(open(my $ids, ">", "/proc/$child/$file"), $file);
    check(syswrite($ids, $lines), $file);
  }
  check(open(my $namespace, "<", "/proc/$child/ns/user"), "a user namespace");
  close $held;
  waitpid $child, 0;
  return $namespaces{$map} = $namespace;
}
sub mount_mapped {
  my ($source, $target, $map) = @_;
  my $attributes = pack("Q4", 0x100000, 0, 0, fileno namespace_of($map));
  my $tree = syscall(428, -100, $source, 0x80000 | 0x8000 | 1);
  check($tree >= 0, "open $source");
  check(syscall(442, $tree, $empty, 0x1000 | 0x8000, $attributes, 32) == 0, "map the ids of $source");
  check(syscall(429, $tree, $empty, -100, $target, 4) == 0, "mount at $target");
}
sub mount_plain {
  my ($source, $target, $type, @options) = @_;
  my %is = map { $_ => 1 } @options;
  my $data = join ",", grep { !/^(ro|bind)$/ } @options;
  my $flags = ($is{ro} ? 1 : 0) | ($is{bind} ? 4096 : 0);
  check(syscall(${mount}, $source, $target, $type, $flags, $data) == 0, "mount at $target");
  # Flags of a bind count only when it is mounted again.
  return if $flags != 4097;
  check(syscall(${mount}, $source, $target, $type, $flags | 32, $data) == 0, "mount at $target");
}
# The change of the uid takes the capabilities away at first. A new program would have root's uid again: so no
# program that is started for it can do this, mount(8) among them.
sub mount_as {
  my ($writer, @mount) = @_;
  my $header = pack("LL", 0x20080522, 0);
  my $capabilities = "\\0" x 24;
  check(syscall(${capget}, $header, $capabilities) == 0, "read capabilities");
  syscall(${setfsuid}, $writer + 0);
  # It tells no failure; asked for what is no id, it tells which one there is.
  check(syscall(${setfsuid}, -1) == $writer, "write as $writer");
  check(syscall(${capset}, $header, $capabilities) == 0, "keep capabilities");
  mount_plain(@mount);
  syscall(${setfsuid}, 0);
}
if ($word) { check(open(my $told, "<&=", $word), "the word"); defined <$told> or exit 1 }
check(open(my $file, "<", $table), $table);
my @lines = <$file>;
# A process that is cloned later would move its position.
close $file;
for my $line (@lines) {
  my ($source, $target, $type, $list) = split / /, $line;
  my @options = split /,/, $list;
  s/\\\\(\\d{3})/chr oct $1/ge for $source, $target, @options;
  my ($map) = map { /^${MAP_OPTION}=(.*)/ } @options;
  if ($map) { mount_mapped($source, $target, $map); next }
  # By its path each time: a map may have covered it.
  check(chdir $base, $base);
  my ($writer) = map { /^${WRITER_OPTION}=(\\d+)/ } @options;
  my @plain = grep { !/^X-/ } @options;
  if (defined $writer) { mount_as($writer, $source, $target, $type, @plain); next }
  mount_plain($source, $target, $type, @plain);
}
`
}
