import { execFileSync } from "node:child_process"
import { lstatSync, mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { BLOCK_BYTES, TAR, writeHeader } from "@berth/protocol/tar-header"
import { describe, expect, it } from "vitest"
import { processesOf } from "../boot/stage.ts"
import type { Stage } from "./load.ts"

/** Makes an archive in which a link and a folder have the same name. */
const hostileArchive = (target: string): Buffer => {
  const none = { mode: 0o777, size: 0, modifiedAtMs: 0, uid: 1000, gid: 1000 }
  const header = (type: string, name: string, to = "") =>
    writeHeader({ ...none, type, name: Buffer.from(name), target: Buffer.from(to) })
  return Buffer.concat([
    header(TAR.link, "d", target),
    header(TAR.directory, "d/"),
    header(TAR.file, "d/planted"),
    Buffer.alloc(2 * BLOCK_BYTES),
  ])
}

/** A files worker as an agent would have it: its folders hold a link and a folder of one name. */
const HOSTILE_WORKER = (target: string) => `
const entry = (path, kind, more) => ({
  path, kind, size: 5, mode: 0o777, uid: 1000, gid: 1000, modifiedAtMs: 0, etag: "x", ...more,
})
const answers = {
  "/files/stat": entry("dir", "directory"),
  "/files/list": {
    entries: [entry("d", "link", { target: ${JSON.stringify(target)} }), entry("d", "directory"), entry("planted", "file")],
    cut: false,
  },
}
const changes = [{ path: ${JSON.stringify(target)}, change: "removed" }]
const watched = [{ type: "ready", directories: 1 }, { type: "changes", changes }]
const server = require("node:http").createServer((request, response) => {
  const path = request.url.split("?")[0]
  if (path === "/files/archive")
    return response.end(Buffer.from("${hostileArchive(target).toString("base64")}", "base64"))
  if (path === "/files/watch")
    return response.write(watched.map((each) => JSON.stringify(each) + "\\n").join(""))
  const said = answers[path]
  const body = said === undefined ? "hello" : JSON.stringify(said)
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length })
  response.end(body)
})
server.listen({ fd: 3 })
process.stdin.on("end", () => process.exit()).resume()
`

/** Adds the case of a sandbox whose agent has taken over the program that works with files. */
export const describeHostileCopy = (stage: () => Stage): void => {
  describe("a sandbox that lies about its files", () => {
    it("gets nothing outside of the destination of `berth cp` touched, and has its lies refused", async () => {
      const { server } = stage()
      const made = await server.berth(["up", "--name", "liar", "--network", "none"])
      const box = server.sandbox(made.stdout.toString().trim())
      const [inside, outside] = [join(server.base, "copied"), join(server.base, "outside")]
      mkdirSync(inside)
      mkdirSync(outside, { mode: 0o700 })
      writeFileSync(join(outside, "own"), "untouched")
      const look = () => {
        const { mode, uid, gid, ctimeMs } = lstatSync(outside)
        return { mode, uid, gid, ctimeMs, names: readdirSync(outside) }
      }
      const before = look()

      await box.files.write("worker.cjs", HOSTILE_WORKER(outside))
      const worker = processesOf(box.id).find(({ command }) => /files-worker\.cjs/.test(command))
      const program = /\S*files-worker\.cjs/.exec(worker?.command ?? "")?.[0] ?? ""
      const inItsMounts = ["--target", String(worker?.pid), "--mount"]
      const patch = ["mount", "--bind", "/workspace/worker.cjs", program]
      execFileSync("nsenter", [...inItsMounts, ...patch])
      process.kill(worker?.pid ?? 0, "SIGKILL")
      // The next call starts the hostile worker, once the end of the first one is known.
      await expect
        .poll(() => box.files.readText("nowhere").catch(() => ""), { timeout: 60_000 })
        .toBe("hello")

      expect(await server.berth(["cp", "liar:dir", `${inside}/`])).toMatchObject({
        status: 1,
        stderr: expect.stringContaining("berth: the sandbox"),
      })
      expect(look()).toEqual(before)
      await expect(box.files.list("dir")).rejects.toMatchObject({
        code: "bridge.protocol_violated",
      })
      const seen: string[] = []
      const watch = async () => {
        for await (const { type } of box.files.watch("dir")) seen.push(type)
      }
      await expect(watch()).rejects.toMatchObject({ code: "bridge.protocol_violated" })
      // The refusal may overtake the message right before it.
      expect(["", "ready"]).toContain(seen.join())
      await server.berth(["rm", "liar", "--force"])
    })
  })
}
