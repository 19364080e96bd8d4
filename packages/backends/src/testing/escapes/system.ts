import { type Attempt, perl } from "../attempt.ts"

/** The targets at which the suite mounts a directory that everybody may write to: read-only, and once more writable. */
export const READ_ONLY_MOUNT = "/mnt/read-only"
export const WRITABLE_MOUNT = "/mnt/writable"
/** A file in both mounts. */
export const MOUNTED_FILE = "file"

const MOUNTED = `my ($mount, $file) = ("${READ_ONLY_MOUNT}", "${READ_ONLY_MOUNT}/${MOUNTED_FILE}");`

/** Attempts to write to read-only places. */
export const SYSTEM_ATTEMPTS: readonly Attempt[] = [
  {
    name: "write to the system",
    stoppedBy: "a read-only root and read-only mounts; it belongs to the host's root as well",
    sees: ["EROFS", "EACCES", "ETXTBSY"],
    script: perl`
      for my $directory (grep { -d } qw(/ /usr /usr/bin /usr/lib /usr/local/bin /bin /sbin /lib /etc /opt /srv)) {
        try_to("create in $directory", sub { sysopen(my $file, "$directory/escaped", O_WRONLY | O_CREAT, 0644) });
        try_to("make a directory in $directory", sub { mkdir "$directory/escaped.d" });
      }
      for my $file (qw(/usr/bin/perl /bin/sh /etc/passwd /etc/hosts /etc/resolv.conf)) {
        try_to("write $file", sub { open_to_write($file) });
        try_to("remove $file", sub { unlink $file });
        try_to("rename $file", sub { rename $file, "$file.old" });
        try_to("chmod $file", sub { chmod 0777, $file });
        try_to("chown $file", sub { chown 0, 0, $file });
      }
    `,
  },
  {
    name: "write to a read-only mount",
    stoppedBy: "the mount's own flag: the files in it are open to everybody",
    sees: ["EROFS"],
    script: perl`${MOUNTED}
      try_to("write", sub { open_to_write($file) });
      try_to("create", sub { sysopen(my $new, "$mount/new", O_WRONLY | O_CREAT, 0644) });
      try_to("remove", sub { unlink $file });
      try_to("rename", sub { rename $file, "$mount/renamed" });
      try_to("truncate", sub { sys("truncate", $file, 0) });
      try_to("chmod", sub { chmod 0700, $file });
      try_to("chown", sub { chown 0, 0, $file });
      try_to("set its times", sub { utime 0, 0, $file });
      try_to("set an attribute", sub { sys("setxattr", $file, "user.escaped", "x", 1, 0) });
      try_to("link", sub { link $file, "$mount/linked" });
      try_to("make a socket", sub { socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un("$mount/socket")) });
    `,
  },
  {
    name: "reopen a file of a read-only mount for writing",
    stoppedBy: "the mount's own flag, which an open file keeps",
    sees: ["EROFS"],
    script: perl`${MOUNTED}
      my $O_PATH = 0x200000;
      for my $flags (O_RDONLY, $O_PATH) {
        sysopen(my $open, $file, $flags) or die "$file: $!";
        my $again = "/proc/self/fd/" . fileno($open);
        for my $mode (O_WRONLY, O_RDWR, O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND) {
          try_to("flags $flags, then $mode", sub { sysopen(my $file, $again, $mode) });
        }
        try_to("flags $flags, then chmod", sub { chmod 0700, $again });
      }
      try_to("from the first process's root", sub { open_to_write("/proc/1/root$file") });
      chdir $mount or die $!;
      try_to("from the working directory", sub { open_to_write("/proc/self/cwd/${MOUNTED_FILE}") });
    `,
  },
  {
    name: "make a read-only mount writable, or put another in its place",
    stoppedBy: "the system call filter, and behind it flags that a user namespace cannot clear",
    sees: ["EPERM"],
    script: perl`${MOUNTED}
      for my $place ($mount, "/usr", "/", "/proc/sys", "/sys") {
        # MS_REMOUNT | MS_BIND, without MS_RDONLY.
        try_to("remount $place", sub { sys("mount", "none", $place, "none", 4096 | 32, 0) });
        # Clears MOUNT_ATTR_RDONLY.
        try_to("mount_setattr $place", sub { sys("mount_setattr", -100, $place, 0, pack("Q4", 0, 1, 0, 0), 32) });
      }
      try_to("bind over it", sub { sys("mount", "/workspace", $mount, "none", 4096, 0) });
      try_to("move over it", sub { sys("move_mount", -100, "/run", -100, $mount, 0) });
      try_to("unmount it", sub { sys("umount2", $mount, 2) });
      try_to("unmount the mask of /proc/kallsyms", sub { sys("umount2", "/proc/kallsyms", 2) });
    `,
  },
  {
    name: "change the kernel's settings",
    stoppedBy: "/proc/sys and /sys are read-only, and belong to the host's root",
    sees: ["EROFS", "EACCES", "EPERM", "ENOENT"],
    script: perl`
      my @doors = qw(/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/hostname
        /proc/sys/kernel/sysrq /proc/sysrq-trigger /proc/sys/vm/overcommit_memory /proc/sys/net/ipv4/ip_forward
        /proc/sys/fs/binfmt_misc/register /proc/sys/user/max_user_namespaces /proc/irq/default_smp_affinity
        /proc/mtrr /proc/bus/pci/00/00.0 /sys/kernel/uevent_helper /sys/power/state /sys/kernel/mm/transparent_hugepage/enabled
        /sys/fs/cgroup/release_agent);
      for my $door (@doors) { try_to($door, sub { open_to_write($door) }) }
    `,
  },
  {
    name: "write to any file of /sys or /proc/sys",
    stoppedBy: "/proc/sys and /sys are read-only, and belong to the host's root",
    sees: ["EROFS", "EACCES", "EPERM", "ENOENT"],
    script: perl`
      for my $tree (qw(/proc/sys /sys)) {
        my %ends;
        each_file($tree, {}, sub {
          my ($path) = @_;
          # A masked file is the /dev/null inside.
          return if -l $path || -c $path;
          $! = 0;
          $ends{open_to_write($path) ? 0 : $! + 0} = $path;
        });
        %ends or die "nothing in $tree";
        for my $end (keys %ends) { try_to("as of $ends{$end}", sub { $! = $end; $end == 0 }) }
      }
    `,
  },
]
