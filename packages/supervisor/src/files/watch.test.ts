import {
  closeSync,
  fchmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { type FileChange, fileQuery, WatchMessage } from "@berth/protocol/files"
import { sized } from "@berth/testing/sampled"
import { expect, it, onTestFinished } from "vitest"
import { WebSocket } from "ws"
import { AUTHORIZED } from "../bridge/testing/supervisor.ts"
import { serveFiles, workerPid } from "./testing/files.ts"

type Query = Parameters<typeof fileQuery>[0]

const watching = async (options: Parameters<typeof serveFiles>[0] = {}) => {
  const served = await serveFiles(options)
  const watch = async (query: Query) => {
    const url = `ws+unix://${served.path}:/files/watch?${fileQuery(query)}`
    const websocket = new WebSocket(url, { headers: AUTHORIZED })
    onTestFinished(() => websocket.terminate())
    const messages: WatchMessage[] = []
    const arrivals: (() => void)[] = []
    const wake = () => {
      for (const each of arrivals.splice(0)) each()
    }
    let closed: number | undefined
    websocket.on("message", (data) => {
      messages.push(WatchMessage.parse(JSON.parse(String(data))))
      wake()
    })
    websocket.on("close", (code) => {
      closed = code
      wake()
    })
    websocket.on("error", () => {})
    websocket.on("unexpected-response", (_, response) => {
      closed = response.statusCode
      wake()
    })
    const until = async (isDone: () => boolean) => {
      while (!isDone()) await new Promise<void>((resolve) => arrivals.push(resolve))
    }
    await until(() => messages.length > 0 || closed !== undefined)
    /** The last reported change of each path. */
    const told = () => {
      const changes = messages.flatMap((each) => (each.type === "changes" ? each.changes : []))
      return Object.fromEntries(
        changes.map(({ path, change }: FileChange) => [
          typeof path === "string" ? path : path.base64,
          change,
        ]),
      )
    }
    const has = (type: WatchMessage["type"]) => messages.some((each) => each.type === type)
    return { websocket, messages, until, told, has, closed: () => closed }
  }
  return { ...served, watch }
}

it("a watch reports files and folders that come, change and go, at any depth, except ignored ones", async () => {
  const { watch, workspace } = await watching()
  const at = (name: string) => join(workspace, name)
  mkdirSync(at("a/b"), { recursive: true })
  mkdirSync(at("node_modules"))
  const { messages, told, until } = await watch({ path: "." })
  expect(messages[0]).toEqual({ type: "ready", directories: 3 })
  writeFileSync(at("node_modules/x"), "")
  writeFileSync(at("a/b/file"), "1")
  mkdirSync(at("new/deep"), { recursive: true })
  writeFileSync(at("new/deep/file"), "")
  writeFileSync(`${at("a")}/new\nline`, "")
  await until(() => Object.keys(told()).length === 5)
  expect(told()).toEqual({
    "a/b/file": "changed",
    new: "changed",
    "new/deep": "changed",
    "new/deep/file": "changed",
    "a/new\nline": "changed",
  })
  renameSync(at("new"), at("moved"))
  await until(() => told()["moved/deep/file"] === "changed")
  expect(told().new).toBe("removed")
  writeFileSync(at("moved/deep/later"), "")
  await until(() => told()["moved/deep/later"] === "changed")
  rmSync(at("moved"), { recursive: true })
  rmSync(at("a/b/file"))
  await until(() => told().moved === "removed" && told()["a/b/file"] === "removed")
  mkdirSync(at("moved/deep"), { recursive: true })
  await until(() => told()["moved/deep"] === "changed")
  writeFileSync(at("moved/deep/again"), "")
  await until(() => told()["moved/deep/again"] === "changed")
  // A new folder with the name of a removed one is watched anew.
  rmSync(at("moved/deep"), { recursive: true })
  mkdirSync(at("moved/deep"))
  writeFileSync(at("sign"), "")
  await until(() => told().sign === "changed")
  writeFileSync(at("moved/deep/at last"), "")
  await until(() => told()["moved/deep/at last"] === "changed")
})

it("a watch ignores the names that its client gives, and takes names of any bytes", async () => {
  const { watch, workspace } = await watching()
  mkdirSync(join(workspace, ".git"))
  const all = await watch({ path: workspace, ignore: [] })
  const some = await watch({ path: workspace, ignore: ["left-out"] })
  writeFileSync(join(workspace, ".git/HEAD"), "")
  writeFileSync(join(workspace, "left-out"), "")
  writeFileSync(Buffer.from(`${workspace}/b\xffd`, "latin1"), "")
  const bad = Buffer.from("b\xffd", "latin1").toString("base64")
  await all.until(() => Object.keys(all.told()).length === 3)
  await some.until(() => Object.keys(some.told()).length === 2)
  expect(Object.keys(all.told()).toSorted()).toEqual([".git/HEAD", bad, "left-out"].toSorted())
  expect(Object.keys(some.told()).toSorted()).toEqual([".git/HEAD", bad].toSorted())
})

/** The number of unread events that the kernel keeps. */
const QUEUED_EVENTS = Number(readFileSync("/proc/sys/fs/inotify/max_queued_events", "utf8"))

it("a watch says when it lost events, and goes on", async () => {
  const { watch, workspace } = await watching()
  mkdirSync(join(workspace, "node_modules/many"), { recursive: true })
  for (let each = 0; each < 4_200; each++)
    writeFileSync(join(workspace, `node_modules/many/${each}`), "")
  const { until, messages, told } = await watch({ path: "." })
  mkdirSync(join(workspace, "quiet"))
  const quiet = await watch({ path: "quiet" })
  const overflows = () => messages.filter(({ type }) => type === "overflow").length
  // More events at once than the watch keeps.
  renameSync(join(workspace, "node_modules/many"), join(workspace, "many"))
  await until(() => overflows() === 1)
  writeFileSync(join(workspace, "many/last"), "")
  await until(() => told()["many/last"] === "changed")
  // More events than the kernel's queue holds, by turns at two paths, as it merges equal events in a row.
  const pid = workerPid(workspace) ?? 0
  process.kill(pid, "SIGSTOP")
  const files = ["many/1", "many/2"].map((name) => openSync(join(workspace, name), "r"))
  for (let each = 0; each <= QUEUED_EVENTS; each += files.length)
    for (const file of files) fchmodSync(file, 0o644)
  for (const file of files) closeSync(file)
  process.kill(pid, "SIGCONT")
  await until(() => overflows() === 2)
  // The lost events may have been other watches'.
  await quiet.until(() => quiet.has("overflow"))
  mkdirSync(join(workspace, "after"))
  await until(() => told().after === "changed")
})

it("a watch is refused where there is no folder, and ends with its folder", async () => {
  const { watch, workspace } = await watching()
  expect((await watch({ path: "gone" })).closed()).toBe(404)
  writeFileSync(join(workspace, "file"), "")
  expect((await watch({ path: "file" })).closed()).toBe(409)
  mkdirSync(join(workspace, "folder"))
  symlinkSync("folder", join(workspace, "link"))
  const { until, messages, closed } = await watch({ path: "link" })
  rmSync(join(workspace, "folder"), { recursive: true })
  await until(() => closed() !== undefined)
  expect(messages.at(-1)).toMatchObject({ type: "error", error: { code: "files.not_found" } })
  expect(closed()).toBe(1000)
})

const FOLDERS = sized("folders of 1,000 files that are watched", { few: 10, all: 100 })

it(`a watch takes a tree of ${FOLDERS},000 files`, async () => {
  const workspaceAt = mkdtempSync("/dev/shm/berth-files-watch-")
  onTestFinished(() => rmSync(workspaceAt, { recursive: true }))
  const { watch, workspace } = await watching({ workspaceAt })
  writeFileSync(join(workspace, "one"), "")
  for (let folder = 0; folder < FOLDERS; folder++) {
    mkdirSync(join(workspace, `${folder}`))
    for (let file = 0; file < 1_000; file++)
      linkSync(join(workspace, "one"), join(workspace, `${folder}/${file}`))
  }
  const { messages, told, until } = await watch({ path: "." })
  expect(messages[0]).toEqual({ type: "ready", directories: FOLDERS + 1 })
  const last = `${FOLDERS - 1}/new`
  writeFileSync(join(workspace, last), "")
  rmSync(join(workspace, "0/999"))
  await until(() => Object.keys(told()).length === 2)
  expect(told()).toEqual({ [last]: "changed", "0/999": "removed" })
})
