import { execFileSync } from "node:child_process"
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { SHARED_TOOLBOXES } from "./shared.ts"

/** Building the whole toolbox moves half a gigabyte: once a run, not once a file. */
export default () => {
  const base = mkdtempSync(join(tmpdir(), "berth-test-toolboxes-"))
  chmodSync(base, 0o711)
  process.env[SHARED_TOOLBOXES] = base
  return () => {
    // The mounts are of servers that failed to start.
    for (const place of mountsOf(basename(base))) execFileSync("umount", ["--lazy", place])
    rmSync(base, { recursive: true, force: true })
  }
}

/** The places at which a directory of that name, or one below it, is mounted. */
const mountsOf = (name: string): string[] =>
  readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) => line.split(" "))
    .flatMap(([, , , root = "", place = ""]) => (root.includes(`/${name}/`) ? [place] : []))
