import { execFileSync, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Readable } from "node:stream"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"
import { AUTHORIZED } from "../bridge/testing/supervisor.ts"
import { until } from "../processes/testing/until.ts"
import { SOMEONE, serveFiles, workerPid } from "./testing/files.ts"
import type { WorkerCommand } from "./worker-process.ts"

const CHUNK = Buffer.alloc(64 * 1024, "chunk")

function* chunks(count: number) {
  for (let each = 0; each < count; each++) yield CHUNK
}

requires("root").it(
  "the files feature does only what the user may, wherever links and dots lead",
  async () => {
    const { call, root, workspace } = await serveFiles()
    mkdirSync(join(root, "private"), { mode: 0o700 })
    writeFileSync(join(root, "private/secret"), "secret")
    writeFileSync(join(root, "readable"), "readable")
    symlinkSync(join(root, "private"), join(workspace, "link"))
    const codes = async (path: string) => [
      (await call("GET", "/files/content", { path })).body?.code,
      (await call("PUT", "/files/content", { path }, { bytes: CHUNK })).body?.code,
      (await call("DELETE", "/files", { path })).body?.code,
    ]
    for (const path of ["link/secret", "../private/secret", join(root, "private/secret")])
      expect(await codes(path)).toEqual(["files.denied", "files.denied", "files.denied"])
    expect(await codes("../readable")).toEqual([undefined, "files.denied", "files.denied"])
    expect((await codes("/proc/1/environ"))[0]).toBe("files.denied")
    for (const [method, path] of [
      ["GET", "list"],
      ["GET", "archive"],
    ] as const)
      expect((await call(method, `/files/${path}`, { path: "link" })).body.code).toBe(
        "files.denied",
      )
    expect(readFileSync(join(root, "private/secret"), "utf8")).toBe("secret")
  },
)

requires("root").it(
  "the files feature reads and writes nothing of root's through links that change meanwhile",
  async () => {
    const { call, root, workspace } = await serveFiles()
    mkdirSync(join(root, "private"), { mode: 0o700 })
    writeFileSync(join(root, "private/file"), "secret")
    mkdirSync(join(workspace, "mine"))
    if (SOMEONE) chownSync(join(workspace, "mine"), SOMEONE.uid, SOMEONE.gid)
    const swap = `cd ${workspace}; while :; do ln -sfnT mine l; ln -sfnT ${root}/private l; done`
    const swapper = spawn("sh", ["-c", swap], { stdio: "ignore", detached: true })
    const stopped = once(swapper, "exit")
    onTestFinished(async () => {
      process.kill(-(swapper.pid as number), "SIGKILL")
      await stopped
    })
    for (let round = 0; round < 50; round++) {
      await call("PUT", "/files/content", { path: "l/file" }, { bytes: Buffer.from("public") })
      const read = await call("GET", "/files/content", { path: "l/file" })
      if (read.status === 200) expect(read.bytes.toString()).toBe("public")
    }
    expect(readFileSync(join(root, "private/file"), "utf8")).toBe("secret")
    expect(readdirSync(join(root, "private"))).toEqual(["file"])
  },
)

requires("root").it("a write to a full disk leaves the old file and nothing else", async () => {
  const disk = mkdtempSync(join(tmpdir(), "berth-files-disk-"))
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m,mode=777", "tmpfs", disk])
  onTestFinished(() => {
    execFileSync("umount", ["--lazy", disk])
    rmSync(disk, { recursive: true })
  })
  const { call } = await serveFiles({ workspaceAt: disk })
  chmodSync(disk, 0o777)
  await call("PUT", "/files/content", { path: "file" }, { bytes: Buffer.from("old") })
  const full = { status: 507, body: { code: "files.disk_full" } }
  const bytes = Readable.from(chunks(200))
  expect(await call("PUT", "/files/content", { path: "file" }, { bytes })).toMatchObject(full)
  writeFileSync(join(disk, "filler"), Buffer.alloc(3_000_000))
  const files = ["1", "2", "file"].map((path) => ({ path, content: "x".repeat(700_000) }))
  const { body } = await call("POST", "/files/write", {}, { body: { files } })
  const codes = body.files.map(({ error }: { error?: { code: string } }) => error?.code)
  expect(codes).toEqual([undefined, "files.disk_full", "files.disk_full"])
  const archive = execFileSync("tar", ["-c", "-C", disk, "filler"], { maxBuffer: 4_000_000 })
  expect(await call("PUT", "/files/archive", { path: "a" }, { bytes: archive })).toMatchObject(full)
  expect(readFileSync(join(disk, "file"), "utf8")).toBe("old")
  expect(readdirSync(disk, { recursive: true }).toSorted()).toEqual(["1", "a", "file", "filler"])
})

it("an upload that is cut off before its first byte, after one piece or in the middle leaves the old file", async () => {
  const { path, url, workspace, call } = await serveFiles()
  writeFileSync(join(workspace, "file"), "old")
  if (SOMEONE) chownSync(join(workspace, "file"), SOMEONE.uid, SOMEONE.gid)
  for (const sentChunks of [0, 1, 100]) {
    const sent = request({
      socketPath: path,
      method: "PUT",
      path: url("/files/content", { path: "file" }),
      headers: { ...AUTHORIZED, "content-length": String(CHUNK.length * 200) },
    })
    sent.on("error", () => {})
    sent.flushHeaders()
    for (let each = 0; each < sentChunks; each++)
      await new Promise<void>((resolve) => sent.write(CHUNK, () => resolve()))
    if (sentChunks > 0) await until(() => readdirSync(workspace).length === 2)
    sent.destroy()
    await until(() => readdirSync(workspace).length === 1)
  }
  expect(readFileSync(join(workspace, "file"), "utf8")).toBe("old")
  expect((await call("GET", "/files/content", { path: "file" })).status).toBe(200)
})

it("the files worker is started again when it was killed, and ends with the sandbox", async () => {
  const { call, workspace, features } = await serveFiles()
  writeFileSync(join(workspace, "file"), "here")
  const read = () => call("GET", "/files/content", { path: "file" })
  expect((await read()).status).toBe(200)
  const first = workerPid(workspace) as number
  process.kill(first, "SIGSTOP")
  const asked = read()
  process.kill(first, "SIGKILL")
  // Undefined where the request came after the worker's end and another worker answered.
  expect(["files.unavailable", undefined]).toContain((await asked).body?.code)
  await until(async () => (await read()).status === 200)
  const second = workerPid(workspace) as number
  expect(second).not.toBe(first)
  await features.close()
  expect(workerPid(workspace)).toBeUndefined()
})

it("the next write removes the unfinished file of a killed worker beside it", async () => {
  const { path, url, workspace, call } = await serveFiles()
  const sent = request({
    socketPath: path,
    method: "PUT",
    path: url("/files/content", { path: "file" }),
    headers: { ...AUTHORIZED, "content-length": String(CHUNK.length * 200) },
  })
  sent.on("error", () => {})
  sent.write(CHUNK)
  await until(() => readdirSync(workspace).length === 1)
  process.kill(workerPid(workspace) as number, "SIGKILL")
  await until(() => workerPid(workspace) === undefined)
  sent.destroy()
  expect(readdirSync(workspace)).toEqual([expect.stringMatching(/^\.berth-.*\.part$/)])
  // Unfinished files of other workers: one that may still write, and one that wrote long ago.
  const [fresh, old] = ["1", "2"].map(
    (digit) => `.berth-${digit.repeat(16)}-00000000-${"0".repeat(16)}.part`,
  )
  for (const name of [fresh, old, ".berth-mine.part"]) {
    writeFileSync(join(workspace, name ?? ""), "")
    if (SOMEONE) chownSync(join(workspace, name ?? ""), SOMEONE.uid, SOMEONE.gid)
  }
  const twoDaysAgo = new Date(Date.now() - 2 * 24 * 60 * 60_000)
  utimesSync(join(workspace, old ?? ""), twoDaysAgo, twoDaysAgo)
  await until(async () => {
    const written = await call("PUT", "/files/content", { path: "file" }, { bytes: CHUNK })
    return written.status === 200
  })
  expect(readdirSync(workspace).toSorted()).toEqual([fresh, ".berth-mine.part", "file"].toSorted())
})

const fakeWorker = (says: string): WorkerCommand => [
  process.execPath,
  "-e",
  `require("net").createServer((s) => { s.on("error", () => {}).on("data", () => {}); ${says} }).listen({ fd: 3 })`,
]

it.each([
  ["ends", "s.destroy()", 503],
  ["is no HTTP server", "s.write('x'.repeat(1e6))", 503],
  ["says less than it promised", "s.end('HTTP/1.1 200 OK\\r\\ncontent-length: 9\\r\\n\\r\\nx')", 0],
  [
    "leaves HTTP",
    "s.write('HTTP/1.1 101 Switching Protocols\\r\\nconnection: upgrade\\r\\nupgrade: x\\r\\n\\r\\n')",
    503,
  ],
  ["says nothing", "", 504],
])("the supervisor does not trust a worker that %s", async (_, says, status) => {
  // A worker needs some time to come up at all.
  const silenceLimitMs = status === 504 ? 300 : 20_000
  const { call } = await serveFiles({ command: fakeWorker(says), silenceLimitMs })
  for (const [method, path] of [
    ["GET", "content"],
    ["PUT", "content"],
    ["GET", "list"],
  ] as const) {
    const headers = { connection: "keep-alive" }
    const answered = call(method, `/files/${path}`, { path: "x" }, { headers })
    if (status === 0) await expect(answered).rejects.toThrow()
    else expect(await answered).toMatchObject({ status })
  }
})

it("the files worker carries 94 MiB both ways in less than 60 MiB more memory, also to a client that reads late", async () => {
  const { call, open, workspace } = await serveFiles()
  const COUNT = 1_500
  await call("GET", "/files/stat", { path: "." })
  const pid = workerPid(workspace) as number
  const before = peakOf(pid)
  const bytes = Readable.from(chunks(COUNT))
  expect((await call("PUT", "/files/content", { path: "large" }, { bytes })).status).toBe(200)
  expect(statSync(join(workspace, "large")).size).toBe(COUNT * CHUNK.length)
  const response = await open("GET", "/files/content", { path: "large" })
  // The response is not read while other calls are served.
  for (let each = 0; each < 5; each++) await call("GET", "/files/list", { path: "." })
  const hash = createHash("sha256")
  for await (const chunk of response) hash.update(chunk as Buffer)
  const wanted = createHash("sha256")
  for (const chunk of chunks(COUNT)) wanted.update(chunk)
  expect(hash.digest("hex")).toBe(wanted.digest("hex"))
  expect(peakOf(pid) - before).toBeLessThan(60)
})

/** The most memory that a process has used, in MiB. */
const peakOf = (pid: number): number => {
  const [, kilobytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? []
  return Number(kilobytes) / 1024
}
