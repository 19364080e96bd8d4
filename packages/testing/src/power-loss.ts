import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const DISK_BYTES = 64 * 1024 ** 2

/** EXT4_IOC_SHUTDOWN with NOLOGFLUSH: data that is not on the disk by now never gets there. */
const SHUTDOWN =
  'sysopen(my $d, $ARGV[0], 0) or die $!; my $f = pack("L", 2); ioctl($d, 0x8004587d, $f) or die $!'

/** An ext4 file system of its own that can lose its power. */
export const makeDiskWithPower = () => {
  const base = mkdtempSync(join(tmpdir(), "berth-power-"))
  const image = join(base, "image")
  const directory = join(base, "disk")
  mkdirSync(directory)
  execFileSync("truncate", ["--size", `${DISK_BYTES}`, image])
  execFileSync("mkfs.ext4", ["-q", "-F", image])
  const mount = (from: string) => execFileSync("mount", ["-o", "loop", from, directory])
  mount(image)
  return {
    base,
    directory,
    /**
     * Cuts the power, and mounts a copy of the disk's content: the original stays without power while it is mounted or a
     * file on it is open.
     */
    losePower: () => {
      execFileSync("perl", ["-e", SHUTDOWN, directory])
      execFileSync("umount", ["--lazy", directory])
      const after = `${image}.after`
      execFileSync("cp", ["--sparse=always", image, after])
      mount(after)
    },
    remove: () => {
      execFileSync("umount", ["--lazy", directory])
      rmSync(base, { recursive: true, force: true })
    },
  }
}
