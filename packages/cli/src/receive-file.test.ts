import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, statfsSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"
import { receiveFile } from "./receive-file.ts"

const MIB = 1024 * 1024

requires("root").describe("a file that a sandbox sends", () => {
  it("does not fill the host's disk, however long it is", async () => {
    const disk = mkdtempSync(join(tmpdir(), "berth-receive-"))
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=96m", "berth-test", disk])
    onTestFinished(() => {
      execFileSync("umount", [disk])
      rmSync(disk, { recursive: true })
    })
    let sent = 0
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        sent += MIB
        if (sent > 200 * MIB) controller.close()
        else controller.enqueue(new Uint8Array(MIB))
      },
    })
    const never = new AbortController().signal
    await expect(receiveFile(endless, join(disk, "file"), never)).rejects.toMatchObject({
      code: "copy.no_room",
    })
    const { bavail, bsize } = statfsSync(disk)
    expect(bavail * bsize).toBeGreaterThan(48 * MIB)
  })
})
