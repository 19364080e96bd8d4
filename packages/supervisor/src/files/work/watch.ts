import { lstat, realpath } from "node:fs/promises"
import { setTimeout as delay } from "node:timers/promises"
import { toWireError } from "@berth/protocol/errors"
import type { FilePath, WatchMessage } from "@berth/protocol/files"
import { DEFAULT_IGNORED_NAMES } from "@berth/protocol/files-limits"
import { watchQuery } from "../../checks/forms/files.ts"
import type { HttpCall } from "../../features/feature.ts"
import { readQuery } from "../../features/read-query.ts"
import { locate } from "./bytes.ts"
import { attempt, failure, wrongKind } from "./failure.ts"
import { Sender } from "./send.ts"
import { WatchTree } from "./watch-tree.ts"

/** Changes within this time are reported together. */
const COALESCE_MS = 50
const CHANGES_PER_MESSAGE = 500

/** `GET /files/watch`: sends messages, one per line, until the client leaves. */
export const watchFiles =
  (workspace: string) =>
  async ({ response, query, signal }: HttpCall): Promise<void> => {
    const { path, ignore: names = DEFAULT_IGNORED_NAMES } = readQuery(query, watchQuery)
    // The kernel reports names in bytes.
    const ignore = new Set(names.map((name) => Buffer.from(name).toString("latin1")))
    const root = await attempt("watch", path, () =>
      realpath(locate(path, workspace), { encoding: "buffer" }),
    )
    if (!(await lstat(root)).isDirectory()) throw wrongKind(path, "file", "directory")
    let wake = () => {}
    const tree = new WatchTree(root, { ignore, onChange: () => wake() })
    const stop = () => {
      tree.close()
      wake()
    }
    signal.addEventListener("abort", stop, { once: true })
    try {
      await attempt("watch", path, () => tree.open())
      response.writeHead(200, { "content-type": "application/x-ndjson" })
      const sender = new Sender(response)
      const tell = (message: WatchMessage) => sender.write(`${JSON.stringify(message)}\n`)
      let changed = nextWake()
      await tell({ type: "ready", directories: tree.directories })
      while (!signal.aborted) {
        await changed
        await delay(COALESCE_MS)
        changed = nextWake()
        if (signal.aborted) break
        const last = await takeAll(tree, root, path)
        for (const message of last.messages) await tell(message)
        if (last.isOver) break
      }
      response.end()
    } finally {
      signal.removeEventListener("abort", stop)
      tree.close()
    }

    function nextWake(): Promise<void> {
      return new Promise((resolve) => {
        wake = resolve
      })
    }
  }

const takeAll = async (
  tree: WatchTree,
  root: Buffer,
  path: FilePath,
): Promise<{ messages: WatchMessage[]; isOver: boolean }> => {
  try {
    const changes = await tree.take()
    if (changes === undefined) return { messages: [{ type: "overflow" }], isOver: false }
    const messages: WatchMessage[] = []
    for (let at = 0; at < changes.length; at += CHANGES_PER_MESSAGE)
      messages.push({ type: "changes", changes: changes.slice(at, at + CHANGES_PER_MESSAGE) })
    if (changes.some(({ change }) => change === "removed")) await lstat(root)
    return { messages, isOver: false }
  } catch (thrown) {
    const error = { ...toWireError(failure(thrown, "watch", path)) }
    return { messages: [{ type: "error", error }], isOver: true }
  }
}
