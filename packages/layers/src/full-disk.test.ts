import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { makeRoot } from "./testing/store.ts"

/** The disk is in a namespace of the trial's own, so that it ends with the trial. */
const ON_SMALL_DISK =
  'mount -t tmpfs -o size=16m,mode=755 tmpfs "$1"; exec "$2" "$3" "$4" "$1" "$5"'

const tryOn = async (directory: string, operation: string) => {
  const script = join(import.meta.dirname, "testing/full-disk.ts")
  const { stdout } = await promisify(execFile)("unshare", [
    ...["--mount", "--propagation=private", "sh", "-ec", ON_SMALL_DISK, "sh"],
    ...[directory, process.execPath, "--conditions=source", script, operation],
  ])
  return JSON.parse(stdout)
}

requires("root").describe("without space on the disk", () => {
  it.each(["top", "freeze", "flatten", "snapshot", "import"])(
    "%s fails with that reason, loses no file, leaves nothing to repair, and works once there is space",
    async (operation) => {
      expect(await tryOn(makeRoot(), operation)).toEqual({
        failed: "layers.disk_full",
        repairs: [],
        problems: [],
        again: "done",
        checked: "intact\n",
        thaws: operation === "snapshot" ? 2 : 0,
      })
    },
  )
})
