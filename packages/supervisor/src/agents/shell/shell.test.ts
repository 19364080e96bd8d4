import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { MAX_PROMPT_CHARS } from "@berth/protocol/bridge-limits"
import type { EventBody } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { systemClock } from "../../processes/clock.ts"
import { Pipes } from "../../processes/output/pipes.ts"
import { ProcessSet } from "../../processes/set.ts"
import { Family } from "../../processes/testing/family.ts"
import type { Say } from "../agent.ts"
import { shellAgent } from "./shell.ts"

const clock = systemClock
let directory: string
let pipes: Pipes
let processes: ProcessSet
let family: Family
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "berth-shell-"))
  pipes = new Pipes(directory)
  processes = new ProcessSet({ clock, pipes })
  family = new Family()
})
afterEach(async () => {
  await processes.stop()
  family.killAll()
  pipes.close()
  rmSync(directory, { recursive: true, force: true })
})

const never = new AbortController().signal

const open = async () => {
  const agent = shellAgent({
    clock,
    pipes,
    processes,
    user: undefined,
    environment: { PATH: "/usr/bin:/bin", ...family.env },
    keys: { environment: { SOME_KEY: "the-key" } },
    places: { workspace: directory, home: directory, toolbox: directory, logs: directory },
  })
  expect(agent.trouble()).toBeDefined()
  await agent.start(never, () => {})
  await agent.attach(directory, never)
  expect(agent.trouble()).toBeUndefined()
  const said: EventBody[] = []
  const say: Say = async (body) => {
    said.push(body)
  }
  const ask = (text: string, signal = never, sayIt = say, attachments: string[] = []) => {
    const start = { prompt: newId.prompt(), session: newId.session(), text, attachments }
    return agent.prompt(start, sayIt, signal)
  }
  const text = () => said.map((body) => (body.type === "message.delta" ? body.text : "")).join("")
  return { ask, say, said, text }
}

describe("the shell agent", () => {
  it("[R3.6] runs a prompt as a command in the repo, and passes on its output", async () => {
    const { ask, said, text } = await open()
    expect(await ask('echo "ünï" > file; echo out; echo err >&2; pwd')).toEqual({
      state: "succeeded",
    })
    expect(text()).toBe(`out\nerr\n${directory}\n`)
    expect(readFileSync(join(directory, "file"), "utf8")).toBe("ünï\n")
    expect(said.at(-1)?.type).toBe("message.completed")
  })

  it("passes the paths of a prompt's attachments to the command as arguments", async () => {
    const { ask, say, text } = await open()
    await ask('printf "%s|" "$@"', never, say, ["/a/b c", "/a/d"])
    expect(text()).toBe("/a/b c|/a/d|")
  })

  it.each(["x", "ü", "€", "😀", "'😀"])(
    "runs a prompt of the greatest length, made of %j, unchanged",
    async (character) => {
      const { ask, say, text } = await open()
      const [before, after] = [
        "cat <<'end' | cksum\n",
        '\nend\ncat; printf "%s|" "$0" "$@"; exit 3',
      ]
      const room = MAX_PROMPT_CHARS - before.length - after.length
      const body = character.repeat(room / character.length).padEnd(room, "x")
      expect(await ask(before + body + after, never, say, ["/a/b c", "/a/d"])).toEqual({
        state: "failed",
        reason: "the command ended with status 3",
      })
      const sum = execFileSync("cksum", { input: `${body}\n`, encoding: "utf8" })
      expect(text()).toBe(`${sum}/bin/sh|/a/b c|/a/d|`)
    },
  )

  it("has its keys in the environment of the command", async () => {
    const { ask, text } = await open()
    await ask('echo "$SOME_KEY"')
    expect(text()).toBe("the-key\n")
  })

  it("keeps characters whole that arrive in pieces", async () => {
    const { ask, text } = await open()
    await ask("printf '\\303'; sleep 0.05; printf '\\274'; sleep 0.05; printf '\\342\\202'")
    expect(text()).toBe("ü\ufffd")
  })

  it.each([
    ["exit 3", "the command ended with status 3"],
    ["kill -KILL $$", "the command was ended by SIGKILL"],
    ["no-such-program", "the command ended with status 127"],
  ])("says how %j failed", async (text, reason) => {
    const { ask } = await open()
    expect(await ask(text)).toEqual({ state: "failed", reason })
  })

  it("[R3.3] ends all processes of a prompt that is stopped, and takes the next prompt", async () => {
    const { ask } = await open()
    const stop = new AbortController()
    const begun = Promise.withResolvers<void>()
    const running = ask(
      "trap '' TERM; (trap '' TERM; sleep 1000) & echo begun; sleep 1000; wait",
      stop.signal,
      async () => begun.resolve(),
    )
    await begun.promise
    stop.abort()
    await expect(running).rejects.toMatchObject({ code: "cancelled" })
    expect(family.running()).toEqual([])
    expect(await ask("true")).toEqual({ state: "succeeded" })
  })

  it("leaves a prompt's background processes running until the process set stops", async () => {
    const { ask } = await open()
    expect(await ask("sleep 1000 & echo started")).toEqual({ state: "succeeded" })
    expect(family.running()).toHaveLength(1)
    await processes.stop()
    expect(family.running()).toEqual([])
  })

  it("waits for a slow reader of its events, and loses no output", async () => {
    const { ask } = await open()
    const gate = Promise.withResolvers<void>()
    let chars = 0
    let waiting = 0
    let mostWaiting = 0
    const running = ask("head -c 8000000 /dev/zero | tr '\\0' x", never, async (body) => {
      mostWaiting = Math.max(mostWaiting, ++waiting)
      await gate.promise
      waiting--
      if (body.type === "message.delta") chars += body.text.length
    })
    // The command still runs, with most of its output unwritten behind a full pipe.
    await expect.poll(() => family.running().length).toBeGreaterThan(0)
    gate.resolve()
    expect(await running).toEqual({ state: "succeeded" })
    expect(chars).toBe(8_000_000)
    expect(mostWaiting).toBe(1)
  })
})
