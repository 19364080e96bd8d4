import { execFileSync } from "node:child_process"
import { once } from "node:events"
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { request } from "node:http"
import { join } from "node:path"
import { Readable } from "node:stream"
import type { HostRequestId } from "@berth/protocol/bridge"
import { requires } from "@berth/testing/requires"
import { describe, expect, it, onTestFinished } from "vitest"
import { temporaryDirectory } from "../journal/testing/events.ts"
import { IncomingBundle } from "./bundles.ts"
import { hostRepos } from "./host-repos.ts"
import { HostRequests } from "./host-requests.ts"
import { AUTHORIZED, get, serve } from "./testing/supervisor.ts"

const COMMIT = "0".repeat(40)

/** Starts a supervisor that has asked for a repo, and plays the server's end. */
const asking = async (directory = temporaryDirectory()) => {
  const hostRequests = new HostRequests()
  const server = await serve({ hostRequests })
  let id = "" as HostRequestId
  hostRequests.connect((ask) => {
    id = ask.id
  })
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const path = join(directory, "bundle")
  const wanted = { repo: "r", ref: undefined, have: [], path }
  const fetched = hostRepos(hostRequests).fetch(wanted, stop.signal)
  fetched.catch(() => {})
  const start = (ask: string = id) => {
    const sent = request({
      socketPath: server.path,
      path: `/bundles/${ask}`,
      method: "PUT",
      headers: AUTHORIZED,
      agent: false,
    })
    sent.on("error", () => {})
    const answered = once(sent, "response").then(([response]) => {
      response.resume()
      return response.statusCode as number
    })
    answered.catch(() => {})
    return { sent, answered }
  }
  const put = async (body: string, ask?: string) => {
    const { sent, answered } = start(ask)
    sent.end(body)
    return await answered
  }
  const answer = (bundled: boolean) =>
    hostRequests.answer(id, { kind: "repo", commit: COMMIT, branch: "main", bundled })
  return {
    ...server,
    hostRequests,
    fetched,
    start,
    put,
    answer,
    bundle: path,
    stop,
    directory,
    id: () => id,
  }
}

describe("a bundle that the server sends", () => {
  it("lies at the path of its question, once the answer is there", async () => {
    const { put, answer, fetched, bundle } = await asking()
    expect(await put("the bundle")).toBe(204)
    answer(true)
    expect(await fetched).toEqual({ commit: COMMIT, branch: "main", isBundled: true })
    expect(readFileSync(bundle, "utf8")).toBe("the bundle")
  })

  it("is taken only for a waiting question", async () => {
    const { path, put, answer, fetched, directory, id } = await asking()
    for (const other of ["", "ask-00000000000000000000", "../health", `${id()}/x`])
      expect(await put("x", other)).toBe(404)
    expect(await get(path, `/bundles/${id()}`)).toMatchObject({ status: 404 })
    const unauthorized = { headers: {}, method: "PUT" }
    expect(await get(path, `/bundles/${id()}`, unauthorized)).toMatchObject({ status: 401 })
    answer(false)
    expect(await fetched).toMatchObject({ isBundled: false })
    expect(await put("late")).toBe(404)
    expect(readdirSync(directory)).toEqual([])
  })

  it("that breaks off leaves nothing, and is sent again", async () => {
    const { start, put, answer, fetched, bundle } = await asking()
    const { sent } = start()
    sent.write("half")
    await expect.poll(() => existsSync(bundle)).toBe(true)
    sent.destroy()
    await expect.poll(() => existsSync(bundle)).toBe(false)
    expect(await put("whole")).toBe(204)
    answer(true)
    await fetched
    expect(readFileSync(bundle, "utf8")).toBe("whole")
  })

  it("takes the place of a bundle that still arrives", async () => {
    const { start, put, answer, fetched, bundle } = await asking()
    const { sent, answered } = start()
    sent.write("of a server that is gone")
    await expect.poll(() => existsSync(bundle)).toBe(true)
    expect(await put("of the next")).toBe(204)
    await expect(answered).rejects.toThrow()
    answer(true)
    await fetched
    expect(readFileSync(bundle, "utf8")).toBe("of the next")
  })

  it("is removed when its question is given up or refused, and fails its question when it never came", async () => {
    const first = await asking()
    const { sent } = first.start()
    sent.write("half")
    await expect.poll(() => existsSync(first.bundle)).toBe(true)
    first.stop.abort(new Error("enough"))
    await expect(first.fetched).rejects.toThrow("enough")
    expect(existsSync(first.bundle)).toBe(false)

    const second = await asking()
    await second.put("whole")
    second.hostRequests.answer(second.id(), {
      kind: "refused",
      code: "repo.git_failed",
      reason: "no",
    })
    await expect(second.fetched).rejects.toMatchObject({ code: "repo.git_failed" })
    expect(existsSync(second.bundle)).toBe(false)

    const third = await asking()
    third.answer(true)
    await expect(third.fetched).rejects.toMatchObject({ code: "bridge.protocol_violated" })
  })

  it("that falls silent is given up", async () => {
    const path = join(temporaryDirectory(), "bundle")
    const body = new Readable({ read: () => {} })
    body.push("x")
    await expect(new IncomingBundle(path, 50).receive(body)).rejects.toThrow("stopped coming")
    expect(existsSync(path)).toBe(false)
  })

  it("is not written through a link, in its own place or in its directory's", async () => {
    const directory = temporaryDirectory()
    const elsewhere = join(directory, "elsewhere")
    mkdirSync(elsewhere)
    writeFileSync(join(elsewhere, "precious"), "precious")
    mkdirSync(join(directory, "place"))
    const path = join(directory, "place", "bundle")
    symlinkSync(join(elsewhere, "precious"), path)
    await new IncomingBundle(path).receive(Readable.from([Buffer.from("x")]))
    expect(readFileSync(join(elsewhere, "precious"), "utf8")).toBe("precious")
    symlinkSync(elsewhere, join(directory, "link"))
    const through = new IncomingBundle(join(directory, "link", "bundle"))
    await expect(through.receive(Readable.from([Buffer.from("x")]))).rejects.toMatchObject({
      code: "repo.bundle_failed",
    })
    expect(readdirSync(elsewhere)).toEqual(["precious"])
  })

  requires("root").it(
    "that does not fit on the disk fails its question with the code of a full disk",
    async () => {
      const directory = temporaryDirectory()
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", directory])
      onTestFinished(() => void execFileSync("umount", [directory]))
      const { put, fetched, bundle } = await asking(directory)
      expect(await put("x".repeat(1_000_000))).toBe(507)
      await expect(fetched).rejects.toMatchObject({
        code: "repo.disk_full",
        details: { path: bundle },
      })
      expect(readdirSync(directory)).toEqual([])
    },
  )
})
