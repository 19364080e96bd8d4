import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { openStore } from "../open.ts"
import { say } from "./report.ts"
import { workspaceSlugs } from "./workspaces.ts"

/**
 * Runs a server on a disk of its own that stops while the machine goes on, and says what the next server finds. To be
 * run in a mount namespace of its own: a copy of the mount in another namespace would keep the disk as it was.
 */

const [, , base = ""] = process.argv
const DISK_BYTES = 64 * 1024 * 1024
/**
 * EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH, at a line of input: what was not synced is lost, as at a power
 * loss.
 */
const STOP = `
  open(my $disk, "<", $ARGV[0]) or die $!;
  my $how = pack("L", 2);
  <STDIN>;
  ioctl($disk, 0x8004587d, $how) or die $!;
`

const [image, disk] = [join(base, "image"), join(base, "disk")]
const dataDir = join(disk, "data")
/** The file system writes nothing by itself meanwhile. */
const mount = () => execFileSync("mount", ["-o", "loop,commit=3000", image, disk])
const unmount = () => execFileSync("umount", [disk])

mkdirSync(disk)
execFileSync("truncate", ["--size", `${DISK_BYTES}`, image])
execFileSync("mkfs.ext4", ["-q", "-F", image])
mount()
const stopper = spawn("perl", ["-e", STOP, disk], { stdio: ["pipe", "inherit", "inherit"] })
const server = spawn(
  process.execPath,
  ["--conditions=source", join(import.meta.dirname, "keep-store.ts"), dataDir],
  { stdio: ["pipe", "pipe", "inherit"] },
)
const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]()
await lines.next()
for (const commit of ["durably first", "ordinarily second"]) {
  server.stdin.write(`${commit}\n`)
  await lines.next()
}
stopper.stdin.end("\n")
await once(stopper, "close")
server.kill("SIGKILL")
await once(server, "close")
unmount()
mount()
const store = await openStore({ dataDir })
const { isRestored, lostPower, db } = store
say({ isRestored, lostPower, has: await workspaceSlugs(db) })
await store.close()
unmount()
