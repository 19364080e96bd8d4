import { TOOLBOX_TARGET } from "@berth/protocol/inside"
import { perl } from "../attempt.ts"
import { AT_THE_END, type Endless } from "./exhaustion.ts"
import { MOUNTED_FILE } from "./system.ts"

/** The watcher writes this when it sees all that it can see. */
export const WATCHING = "watching"

const FILES = `grep { -e } qw(/usr/bin/env /usr/bin/true /bin/sh /etc/passwd /etc/services /etc/ld.so.cache /.berth/init
  /dev/null /dev/zero /dev/urandom ${TOOLBOX_TARGET}/${MOUNTED_FILE})`

/** Opens and locks files that sandboxes share, and starts programs: in another sandbox, and on the host. */
export const OTHERS_AT_WORK = perl`
  for my $path (${FILES}) {
    try_to($path, sub { my $file; sysopen($file, $path, O_RDONLY) && flock($file, 5) });
  }
  try_to("start a program", sub { system("/usr/bin/env true < /dev/null") == 0 });
`

export const WATCHER: Endless = {
  name: "see by inotify what the host or another sandbox starts, or lock a file for them",
  stoppedBy:
    "overlays of its own over what it shares with them: watches and locks stay on its own inodes",
  sees: ["nothing"],
  script: perl`
    my @locked;
    my $watch = sys("inotify_init1", O_NONBLOCK) or die "inotify: $!";
    open(my $events, "<&=", $watch) or die $!;
    for my $path (${FILES}) {
      sysopen(my $file, $path, O_RDONLY) or die "$path: $!";
      flock($file, 6) or die "lock $path: $!";
      push @locked, $file;
    }
    my %watched;
    for my $path (${FILES}, grep { -d } qw(/ /usr /usr/bin /usr/lib /bin /lib /lib64 /etc /dev /.berth ${TOOLBOX_TARGET})) {
      my $number = sys("inotify_add_watch", $watch, $path, 0x3f) or die "watch $path: $!";
      $watched{$number + 0} = $path;
    }
    sub seen {
      my %seen;
      while (sysread($events, my $read, 65536)) {
        while (length $read) {
          my ($number, undef, undef, $length) = unpack("iIII", $read);
          my $name = unpack("Z*", substr($read, 16, $length));
          $seen{"$watched{$number}/$name"} = 1;
          substr($read, 0, 16 + $length) = "";
        }
      }
      return join(" ", sort keys %seen) || "nothing";
    }
    # Perl itself has opened something by now.
    seen();
    my $ending = 0;
    $SIG{TERM} = sub { $ending = 1 };
    print "${WATCHING}\n";
    select(undef, undef, undef, 0.1) while !$ending;
    my $others = seen();
    sysopen(my $own, "/usr/bin/env", O_RDONLY) or die $!;
    print "its own: ", seen(), "\n";
    print "${AT_THE_END}: $others\n";
  `,
}
