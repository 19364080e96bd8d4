import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { requires } from "@berth/testing/requires"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { carryEnvironment } from "../processes/carried-environment.ts"
import { OWN_PROGRAM_FLAGS } from "../processes/own-program.ts"
import type { Family } from "../processes/testing/family.ts"
import { hearsInspectorSignal, idsOf, OUT_OF_REACH, reach } from "../processes/testing/reach.ts"
import { until } from "../processes/testing/until.ts"
import { readProcess } from "../processes/tree/proc.ts"
import { MAX_TERMINALS } from "./serve.ts"
import { MAIN, type Program, startProgram } from "./testing/program.ts"
import { Viewer } from "./testing/viewer.ts"

/** Covers garbage that is not collected yet. */
const MAX_GROWTH_BYTES = 40 * 1024 * 1024

let started: Program
let family: Family
let directory: string
let program: ChildProcess
let port: number
beforeEach(async () => {
  started = await startProgram()
  family = started.family
  directory = started.directory
  program = started.child
  port = started.port
})
afterEach(() => started.end())

const get = (path: string, headers = {}) =>
  fetch(`http://127.0.0.1:${port}${path}`, { headers }).then(async (response) => ({
    status: response.status,
    type: response.headers.get("content-type"),
    policy: response.headers.get("content-security-policy"),
    text: await response.text(),
  }))

const others = () => started.others()

describe("the terminal's page", () => {
  it("comes with its files, and may load nothing from elsewhere", async () => {
    const page = await get("/")
    expect(page).toMatchObject({ status: 200, type: "text/html; charset=utf-8" })
    expect(page.policy).toContain("default-src 'none'; script-src 'self'")
    for (const [, file] of page.text.matchAll(/(?:src|href)="([^"]+)"/g))
      expect(await get(`/${file}`), file).toMatchObject({ status: 200 })
    expect((await get("/../secret")).status).toBe(404)
  })

  it("is refused to pages of other sites", async () => {
    expect((await get("/", { origin: "https://example.com" })).status).toBe(403)
    const strangers = [{ origin: "https://example.com" }, { host: "rebound.example" }]
    for (const stranger of strangers)
      await expect(Viewer.open(port, stranger)).rejects.toThrow("403")
    expect(others()).toEqual([])
  })
})

requires("root").describe("the terminal's server", () => {
  requires("root").it(
    "cannot be read or changed by the user whose shells it starts, nor by their environment",
    async () => {
      const user = { uid: 12_322, gid: 12_322 }
      const trap = join(directory, "trap.cjs")
      writeFileSync(trap, `require("node:fs").writeFileSync("${directory}/sprung", "")`)
      const shells = { SHELL: "/bin/sh", PS1: "$ ", NODE_OPTIONS: `--require=${trap}` }
      const args = [...OWN_PROGRAM_FLAGS, "--conditions=source", MAIN, directory, "/"]
      const own = spawn(process.execPath, [...args, JSON.stringify(user)], {
        env: { ...family.env, PORT: "0", ...carryEnvironment({ ...family.env, ...shells }) },
        stdio: ["ignore", "pipe", "inherit"],
      })
      const pid = own.pid as number
      const [line] = await once(createInterface({ input: own.stdout }), "line")
      expect(idsOf(pid)).toMatchObject({ groups: "", rights: "0000000000000000" })
      expect(reach(pid, user)).toEqual(OUT_OF_REACH)
      expect(hearsInspectorSignal(pid)).toBe(false)
      expect(existsSync(join(directory, "sprung"))).toBe(false)
      const viewer = await Viewer.open(Number(/:(\d+)\/$/.exec(line)?.[1]))
      viewer.type('echo "<$(id -u)|$(id -G)|$NODE_OPTIONS>"\n')
      const [, uid, groups, options] = await viewer.see(/<(\d+)\|([\d ]+)\|([^|>]*)>\r/)
      expect([uid, groups, options]).toEqual(["12322", "12322", shells.NODE_OPTIONS])
      await viewer.close()
    },
  )
})

describe("a terminal", () => {
  it("is a shell in the program's directory, without the program's PORT", async () => {
    const viewer = await Viewer.open(port, { origin: `http://127.0.0.1:${port}` })
    viewer.type('echo "<$PWD|$PORT|$TERM|$(tty)>"\n')
    const [, at, none, term, tty] = await viewer.see(/<(\/[^|]*)\|([^|]*)\|([^|]*)\|([^>]*)>\r/)
    expect([at, none, term]).toEqual([directory, "", "xterm-256color"])
    expect(tty).toMatch(/^\/dev\/pts\/\d+$/)
    await viewer.close()
  })

  it("has the size that its page asks for, and ends at an invalid size", async () => {
    const viewer = await Viewer.open(port)
    viewer.socket.send("101x37")
    viewer.type("stty size\n")
    await viewer.see(/37 101\r/)
    viewer.socket.send("0x70000")
    const [code] = await once(viewer.socket, "close")
    expect(code).toBe(1003)
  })

  it("passes characters that are cut in two, both ways", async () => {
    const viewer = await Viewer.open(port)
    const [first, ...rest] = Buffer.from("echo 'gr\u00fc\u00df \u{1f6a2}' | od -An -tx1\n").map(
      (byte) => byte,
    )
    for (const byte of [first as number, ...rest]) viewer.socket.send(Buffer.of(byte))
    await viewer.see(/67 72 c3 bc c3 9f 20 f0 9f 9a a2/)
    viewer.type("printf '\\360\\237'; sleep 0.05; printf '\\232\\242.\\n'\n")
    await viewer.see(/\u{1f6a2}\.\r/u)
    await viewer.close()
  })

  it("ends with its viewer, and so do all its processes, also those that ignore the hang-up", async () => {
    const viewer = await Viewer.open(port)
    const stays = await Viewer.open(port)
    viewer.type("(trap '' HUP TERM; sleep 1000; sleep 1001) & sleep 1002 &\n")
    viewer.type("trap '' HUP; sleep 1003 & echo up $((40 + 2))\n")
    await viewer.see(/up 42\r/)
    stays.type("echo $((50 + 1)) $$\n")
    const [, shell] = await stays.see(/51 (\d+)\r/)
    expect(others().length).toBeGreaterThan(4)
    viewer.socket.terminate()
    await until(() => others().length === 1)
    expect(others()).toEqual([Number(shell)])
    await stays.close()
    await until(() => others().length === 0)
  })

  it("that ends by itself tells its viewer, after its last output", async () => {
    const viewer = await Viewer.open(port)
    viewer.type("echo bye $((6 * 7)); exit\n")
    const [code, reason] = await once(viewer.socket, "close")
    expect([code, String(reason)]).toEqual([1000, "the shell has ended"])
    expect(viewer.shown).toMatch(/bye 42\r/)
    expect(others()).toEqual([])
  })

  it("waits for a viewer that does not read, with less than 40 MiB of memory", async () => {
    const viewer = await Viewer.open(port)
    const before = started.residentBytes()
    viewer.type("yes | head -c 300000000; echo; echo all of it\n")
    await viewer.see(/y\r\ny\r/)
    viewer.socket.pause()
    const running = others()
    expect(running.length).toBeGreaterThan(1)
    await until(() => isWaiting(running))
    expect(others()).toEqual(running)
    expect(started.residentBytes() - before).toBeLessThan(MAX_GROWTH_BYTES)
    viewer.socket.terminate()
    await until(() => others().length === 0)
  }, 30_000)

  it("cuts off a viewer whose input no program reads, with less than 40 MiB of memory", async () => {
    const viewer = await Viewer.open(port)
    viewer.type("stty raw -echo; echo ready $((1 + 1)); sleep 1000\n")
    await viewer.see(/ready 2/)
    const other = await Viewer.open(port)
    const closed = once(viewer.socket, "close")
    viewer.socket.on("error", () => {})
    const before = started.residentBytes()
    const chunk = Buffer.alloc(128 * 1024, "x")
    for (let n = 0; n < 400; n++) viewer.socket.send(chunk)
    await closed
    other.type("echo still $((40 + 2))\n")
    await other.see(/still 42\r/)
    await other.close()
    expect(started.residentBytes() - before).toBeLessThan(MAX_GROWTH_BYTES)
    await until(() => others().length === 0)
  })

  it("is refused to a viewer beyond the limit, until another has left", async () => {
    const viewers = await Promise.all(
      Array.from({ length: MAX_TERMINALS }, () => Viewer.open(port)),
    )
    await expect(Viewer.open(port)).rejects.toThrow("503")
    await viewers[0]?.close()
    const again = await until(() => Viewer.open(port).catch(() => undefined))
    await Promise.all([again, ...viewers].map((viewer) => viewer.close()))
  })

  it("ends with the server, and leaves no process", async () => {
    const viewer = await Viewer.open(port)
    viewer.type("(trap '' HUP TERM; sleep 1000) & echo up $((40 + 2))\n")
    await viewer.see(/up 42\r/)
    program.kill("SIGTERM")
    const [status] = await once(program, "exit")
    expect(status).toBe(0)
    expect(family.running()).toEqual([])
  })
})

const isWaiting = (pids: readonly number[]): boolean => pids.every((pid) => stateOf(pid) === "S")

const stateOf = (pid: number) => readProcess(pid)?.state
