import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs"
import { request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { json } from "node:stream/consumers"
import { MAX_TERMINALS, SCROLLBACK_BYTES, TERMINAL_CLOSE } from "@berth/protocol/terminal-limits"
import { TerminalInfo, TerminalList, type TerminalStart } from "@berth/protocol/terminals"
import { sized } from "@berth/testing/sampled"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { AUTHORIZED, get, serve } from "../bridge/testing/supervisor.ts"
import { ActivityTracker } from "../features/activity-tracker.ts"
import { Dispatch } from "../features/dispatch.ts"
import { type Clock, systemClock } from "../processes/clock.ts"
import { type Launch, launch } from "../processes/launch.ts"
import { Pipes } from "../processes/output/pipes.ts"
import { ProcessSet } from "../processes/set.ts"
import { Family } from "../processes/testing/family.ts"
import { until } from "../processes/testing/until.ts"
import { terminalsFeature } from "./feature.ts"
import { TestViewer } from "./testing/viewer.ts"
import { STALLED_MS } from "./viewer.ts"

/** An ordinary user if the tests run as root. */
const user = process.getuid?.() === 0 ? { uid: 1234, gid: 1234 } : undefined

let family: Family
let workspace: string
let features: Dispatch
beforeEach(() => {
  family = new Family()
  workspace = mkdtempSync(join(tmpdir(), "berth-terminals-"))
  chmodSync(workspace, 0o755)
  if (user !== undefined) chownSync(workspace, user.uid, user.gid)
})
afterEach(async () => {
  await features.close()
  family.killAll()
  rmSync(workspace, { recursive: true, force: true })
})

const open = async (clock: Clock = systemClock, maxRunning?: number) => {
  const pipes = new Pipes(workspace)
  const processes = new ProcessSet({ clock, pipes })
  const places = { workspace, home: workspace, toolbox: "/", logs: workspace }
  const environment = { ...family.env, HOME: workspace, SHELL: "/bin/sh", PS1: "$ ", ENV: "" }
  const parts = { clock, pipes, processes, places, user, environment }
  features = new Dispatch({
    terminals: async () => terminalsFeature(parts, new ActivityTracker(), maxRunning),
  })
  const { path } = await serve({ features })
  const call = (method: string, url: string, body?: unknown) =>
    new Promise<{ status: number; body: unknown }>((resolve, reject) => {
      const sent = request({ socketPath: path, path: url, method, headers: AUTHORIZED })
      sent.on("error", reject)
      sent.on("response", (response) => {
        const { statusCode: status = 0 } = response
        json(response).then((value) => resolve({ status, body: value }), reject)
      })
      sent.end(body === undefined ? undefined : JSON.stringify(body))
    })
  const start = async (more: Partial<TerminalStart> = {}) => {
    const { status, body } = await call("POST", "/terminals", { cols: 80, rows: 24, ...more })
    expect(status, JSON.stringify(body)).toBe(201)
    return TerminalInfo.parse(body)
  }
  const sh = (script: string) => start({ command: ["sh", "-c", script] })
  const attach = (id: string, query = "") =>
    TestViewer.open(`ws+unix://${path}:/terminals/${id}/attach${query}`, AUTHORIZED)
  const info = async (id: string) =>
    TerminalInfo.parse((await call("GET", `/terminals/${id}`)).body)
  return { path, call, start, sh, attach, info }
}

describe("a terminal", () => {
  it("is a shell of the user in the workspace, with a terminal of its own that it may open by name", async () => {
    const { start, attach } = await open()
    const { id, pid } = await start({ env: { COLOUR: "blue" } })
    const viewer = await attach(id)
    viewer.type('echo named > "$(tty)"; echo error > /dev/stderr; echo "<$PWD|$TERM|$COLOUR|$$>"\n')
    const [, at, term, colour, shell] = await viewer.see(/<(\/[^|]*)\|([^|]*)\|([^|]*)\|(\d+)>\r/)
    expect([at, term, colour, Number(shell)]).toEqual([workspace, "xterm-256color", "blue", pid])
    expect(viewer.bytes.toString()).toMatch(/named\r\nerror\r\n/)
    viewer.type("echo \"<$(id -u):$(id -G)>\"; touch mine; stty -a | grep -o ' .\\?iutf8'\n")
    const [, ids] = await viewer.see(/<(\d+:[\d ]+)>\r/)
    await viewer.see(/ iutf8/)
    if (user !== undefined) {
      expect(ids).toBe("1234:1234")
      expect(statSync(join(workspace, "mine")).uid).toBe(user.uid)
    }
    viewer.type("exit 3\n")
    expect(await viewer.hear("exit")).toEqual({ type: "exit", status: 3, signal: null })
    expect(await viewer.closed).toMatchObject({ code: 1000 })
  })

  it("has job control: an interrupt reaches the program, and not the shell", async () => {
    const { start, attach } = await open()
    const { id, pid } = await start({ command: ["bash", "--norc", "-i"] })
    const viewer = await attach(id)
    // A shell may discard input that was typed before it had the terminal.
    await viewer.see(/\$ $/)
    viewer.type("sleep 1000\n")
    // The shell's child has the terminal before it executes the program.
    await until(() => foregroundOf(pid) === "sleep")
    viewer.type("\x03")
    await viewer.see(/\^C\r\n[\s\S]*\$ $/)
    viewer.type("echo st''ill $?\n")
    await viewer.see(/still 130/)
    expect(viewer.bytes.toString()).not.toContain("cannot set terminal")
  })

  it("refuses a directory that does not exist, and says in words when there is no such command", async () => {
    const { call, start, attach } = await open()
    const wanted = { cols: 80, rows: 24, cwd: "nowhere" }
    expect(await call("POST", "/terminals", wanted)).toMatchObject({
      status: 404,
      body: { code: "process.no_directory", details: { cwd: join(workspace, "nowhere") } },
    })
    const { id } = await start({ command: ["no-such-command"] })
    const viewer = await attach(id)
    await viewer.see(/no-such-command.*not found/)
    expect(await viewer.hear("exit")).toMatchObject({ status: 127 })
  })

  it("repeats its output to a viewer, from the byte that the viewer asks for", async () => {
    const { start, attach, call, info } = await open()
    const { id } = await start({ command: ["cat"] })
    const first = await attach(id)
    first.type("one\n")
    await first.see(/one\r\none\r\n/)
    first.socket.terminate()
    const shown = first.bytes.length
    await until(async () => (await info(id)).viewers === 0)
    const second = await attach(id)
    await second.see(/one\r\none\r\n/)
    second.type("two\n")
    await second.see(/two\r\ntwo\r\n/)
    const third = await attach(id, `?from=${shown}`)
    await third.see(/two\r\ntwo\r\n/)
    expect(await third.hear("attached")).toMatchObject({ from: shown, missed: 0, cols: 80 })
    expect(third.bytes.toString()).toBe("two\r\ntwo\r\n")
    for (const wrong of ["x", "-1", "1e3", "99999999"])
      await expect(attach(id, `?from=${wrong}`)).rejects.toThrow("400")
    await expect(attach("term-0")).rejects.toThrow("404")
    expect(TerminalList.parse((await call("GET", "/terminals")).body).terminals).toMatchObject([
      { id, command: ["cat"], cwd: workspace, exit: null, viewers: 2 },
    ])
  })

  it("has the last size that any viewer asked for, and tells it to all viewers", async () => {
    const { start, attach } = await open()
    const { id } = await start()
    const [one, two] = [await attach(id), await attach(id)]
    one.resize(101, 37)
    expect(await two.hear("resized")).toMatchObject({ cols: 101, rows: 37 })
    two.type("stty size\n")
    await one.see(/37 101\r/)
    one.resize(0, 70_000)
    expect(await one.closed).toMatchObject({ code: TERMINAL_CLOSE.badMessage })
    two.resize(80, 24)
    two.type("stty size\n")
    await two.see(/24 80\r/)
  })

  it("passes bytes as they are, also half characters", async () => {
    const { sh, attach } = await open()
    const { id } = await sh("stty raw -echo; printf ready; exec cat")
    const viewer = await attach(id)
    await viewer.see(/ready/)
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
    viewer.type(bytes.subarray(0, 0xc4))
    viewer.type(bytes.subarray(0xc4))
    await until(() => viewer.bytes.length === "ready".length + 256)
    expect(viewer.bytes.subarray("ready".length).equals(bytes)).toBe(true)
  })
})

/** The name of the program that has the terminal of a process. */
const foregroundOf = (pid: number): string => {
  const group = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.split(" ")[5]
  return readFileSync(`/proc/${group}/comm`, "latin1").trimEnd()
}

describe("the end of a terminal", () => {
  it("comes when its program is killed, and is told to viewers that attach later", async () => {
    const { sh, attach, info } = await open()
    const { id } = await sh("echo last words; kill -KILL $$")
    const viewer = await attach(id)
    expect(await viewer.hear("exit")).toEqual({ type: "exit", status: null, signal: "SIGKILL" })
    expect(await info(id)).toMatchObject({ exit: { status: null, signal: "SIGKILL" } })
    const late = await attach(id)
    await late.hear("exit")
    expect(late.bytes.toString()).toBe("last words\r\n")
  })

  it("ends its background jobs, and leaves processes with a session of their own", async () => {
    const { sh, attach, call } = await open()
    const { id } = await sh(
      "nohup sleep 1000 >/dev/null 2>&1 & setsid sh -c 'echo away; exec sleep 2000 </dev/null >/dev/null 2>&1' & read go",
    )
    const viewer = await attach(id)
    await viewer.see(/away/)
    await until(() => family.running().length === 3)
    viewer.type("\n")
    await viewer.hear("exit")
    await until(() => family.running().length === 1)
    await call("DELETE", `/terminals/${id}`)
    expect(family.running()).toEqual([])
  })

  it("by a delete ends all its processes, whatever signals they ignore and wherever they went", async () => {
    const { sh, attach, call } = await open()
    const { id } = await sh(
      `trap "" HUP TERM INT; (setsid sh -c 'trap "" HUP TERM; while :; do sleep 1; done' &) ; echo up; while :; do sleep 1; done`,
    )
    const viewer = await attach(id)
    await viewer.see(/up/)
    expect(await call("DELETE", `/terminals/${id}`)).toMatchObject({
      status: 200,
      body: { exit: { signal: "SIGKILL" } },
    })
    expect(family.running()).toEqual([])
    expect(await viewer.closed).toMatchObject({ code: 1000 })
    expect(await call("GET", `/terminals/${id}`)).toMatchObject({ status: 404 })
  })

  it("comes with the end of the sandbox", async () => {
    const { start, attach } = await open()
    const viewer = await attach((await start()).id)
    await features.close()
    await viewer.closed
    expect(family.running()).toEqual([])
  })

  it("comes after all of its output, however much that is", async () => {
    const { sh, attach } = await open()
    const { id } = await sh("read go; seq 1 200000; echo done")
    const viewer = await attach(id)
    viewer.type("\n")
    await viewer.see(/1\r\n/)
    viewer.socket.pause()
    viewer.socket.resume()
    await viewer.hear("exit")
    const lines = viewer.bytes.toString().split("\r\n")
    expect(lines.slice(-3)).toEqual(["200000", "done", ""])
    expect(lines.length).toBeGreaterThan(200_000)
  })
})

const FLOOD = "stty raw -echo; echo up; exec cat /dev/zero"

describe("a viewer that does not read", () => {
  it("holds up the program while it is alone, and is dropped when it does nothing for long", async () => {
    const stalled: (() => void)[] = []
    const after: Clock["after"] = (ms, call) => {
      if (ms !== STALLED_MS) return systemClock.after(ms, call)
      stalled.push(call)
      return () => stalled.splice(stalled.indexOf(call), 1)
    }
    const { sh, attach, info } = await open({ ...systemClock, after })
    const { id } = await sh(`read go; ${FLOOD}`)
    const lazy = await attach(id)
    lazy.type("\n")
    await lazy.see(/up/)
    lazy.socket.pause()
    // The program stands still once kernel and sockets are full, and the viewer's time runs from then on. Two equal
    // numbers alone do not tell that: on a busy machine there may have been no read in between.
    let before = -1
    await until(async () => {
      const { to } = (await info(id)).output
      const isStill = to === before
      before = to
      await new Promise((resolve) => setImmediate(resolve))
      return isStill && stalled.length === 1
    })
    stalled[0]?.()
    await until(async () => (await info(id)).viewers === 0)
    await until(async () => (await info(id)).output.to > before + SCROLLBACK_BYTES)
    lazy.socket.resume()
    expect(await lazy.closed).toMatchObject({ code: TERMINAL_CLOSE.tooSlow })
  })

  it("does not hold up the others, and is dropped when it falls behind, with less than 48 MiB of buffers", async () => {
    const { sh, attach, info } = await open()
    const { id } = await sh(`read go; ${FLOOD}`)
    const lazy = await attach(id)
    const eager = await attach(id)
    lazy.socket.pause()
    let eaten = 0
    eager.socket.removeAllListeners("message")
    eager.socket.on("message", (data: Buffer) => {
      eaten += data.length
    })
    eager.type("\n")
    await until(() => eaten > 24 * 1024 * 1024)
    expect(await info(id)).toMatchObject({ viewers: 1 })
    expect(process.memoryUsage().arrayBuffers).toBeLessThan(48 * 1024 * 1024)
    lazy.socket.resume()
    expect(await lazy.closed).toMatchObject({ code: TERMINAL_CLOSE.tooSlow })
    const again = await attach(id, "?from=0")
    expect((await again.hear("attached")).missed).toBeGreaterThan(0)
  })

  it("is cut off when the program does not read its input", async () => {
    const { sh, attach } = await open()
    const { id } = await sh("stty raw -echo; echo up; exec sleep 1000")
    const viewer = await attach(id)
    await viewer.see(/up/)
    for (let sent = 0; sent < 3; sent++) viewer.type(Buffer.alloc(512 * 1024, "x"))
    expect(await viewer.closed).toMatchObject({ code: TERMINAL_CLOSE.notRead })
  })
})

describe("terminals", () => {
  it("are not open in other processes that start meanwhile, nor in other terminals", async () => {
    const { start, sh, attach } = await open()
    await start()
    const { id } = await sh("readlink /proc/self/fd/*")
    const second = await attach(id)
    await second.hear("exit")
    const pipes = new Pipes(workspace)
    const what: Launch = {
      command: ["sh", "-c", "readlink /proc/self/fd/*"],
      cwd: "/",
      env: family.env,
    }
    const options = { pipes, conversation: false, signal: new AbortController().signal }
    const { output, exited } = await launch(what, options)
    let said = ""
    output.listen((chunk) => {
      said += String(chunk)
    })
    await exited
    await output.settled()
    pipes.close()
    for (const shown of [said, second.bytes.toString()]) {
      expect(shown).toContain("/dev/null")
      expect(shown).not.toContain("ptmx")
    }
  })

  it("are limited in number", async () => {
    const limit = sized("terminals at once", { few: 8, all: MAX_TERMINALS })
    const { call, sh, path } = await open(systemClock, limit)
    for (let made = 0; made < limit; made++) await sh("read go")
    expect(await call("POST", "/terminals", { cols: 80, rows: 24 })).toMatchObject({
      status: 429,
      body: { code: "terminals.too_many" },
    })
    const body = JSON.parse((await get(path, "/terminals")).body)
    expect(TerminalList.parse(body).terminals).toHaveLength(limit)
    await features.close()
    expect(family.running()).toEqual([])
  })
})
