import { execFileSync } from "node:child_process"
import { chmodSync, mkdirSync, writeFileSync } from "node:fs"
import { request } from "node:http"
import { join } from "node:path"
import { Activity } from "@berth/protocol/activity"
import type { Event } from "@berth/protocol/event"
import { newId, type PromptId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { AUTHORIZED, get } from "../bridge/testing/supervisor.ts"
import { ask, sh } from "../commands/testing/stage.ts"
import { until } from "../processes/testing/until.ts"
import { TestViewer } from "../terminals/testing/viewer.ts"
import { makePlaces, start } from "../testing/start.ts"

type Started = ReturnType<typeof start>
type Client = Awaited<ReturnType<Started["bridge"]>>

const activityOf = async ({ socket }: Started, query = ""): Promise<Activity> => {
  const { status, body } = await get(socket, `/activity${query}`)
  expect([status, body]).toEqual([200, expect.stringContaining("version")])
  return Activity.parse(JSON.parse(body))
}

/** Reads the activity at its next change. */
const after = (started: Started, { version }: Activity): Promise<Activity> =>
  activityOf(started, `?after=${version}&wait=20000`)

/** Waits for one change after another until the condition holds. */
const when = async (started: Started, holds: (activity: Activity) => boolean) => {
  let activity = await activityOf(started)
  while (!holds(activity)) activity = await after(started, activity)
  return activity
}

const events = (client: Client) =>
  client.received
    .flatMap(({ events }) => (Array.isArray(events) ? (events as Event[]) : []))
    .map(({ body }) => body)
const boots = (client: Client) =>
  client.until(() => events(client).some(({ type }) => type === "boot.ready"))
const hasEnded = (client: Client, prompt: PromptId) =>
  events(client).some(
    (body) => body.type === "prompt.state" && body.prompt === prompt && body.state !== "running",
  )

const say = (client: Client, text: string): PromptId => {
  const prompt = newId.prompt()
  client.say({ type: "prompt.start", prompt, session: newId.session(), text })
  return prompt
}

/** Runs a prompt to its end. */
const run = async (client: Client, text: string): Promise<void> => {
  const prompt = say(client, text)
  await client.until(() => hasEnded(client, prompt))
}

const ready = async (...args: Parameters<typeof start>) => {
  const started = start(...args)
  await started.answers()
  const client = await started.bridge()
  await boots(client)
  return { started, client }
}

const stop = async ({ child, ended, family }: Started) => {
  child.kill("SIGTERM")
  expect(await ended).toEqual({ status: 0, signal: null })
  family.killAll()
}

/** Runs a program with an environment that holds only the variable by which the test finds its own processes. */
const BARE = `env -i BERTH_TEST_FAMILY="$BERTH_TEST_FAMILY"`

describe("the activity of a sandbox", () => {
  it("[R1.9] [R1.10] names prompts from their acceptance on, also during the boot and after a crash", async () => {
    const made = makePlaces()
    const gate = join(made.root, "gate")
    execFileSync("mkfifo", [gate])
    const sidecar = { name: "slow", command: ["sh", "-c", `read x < ${gate}; echo up; sleep 1000`] }
    const plan = {
      sandbox: newId.sandbox(),
      sidecars: [{ ...sidecar, ready: { line: "up" }, required: true }],
    }
    const killed = start(plan, made)
    await killed.answers()
    const none = { prompts: [], commands: [], terminals: [], leftProcesses: 0 }
    const first = await activityOf(killed)
    expect(first).toMatchObject(none)
    const waiting = after(killed, first)
    const prompt = say(await killed.bridge(), `read x < ${gate}`)
    expect(await waiting).toMatchObject({ ...none, prompts: [prompt] })
    made.family.killAll()
    await killed.ended

    const started = start(plan, made)
    await started.answers()
    expect(await activityOf(started)).toMatchObject({ ...none, prompts: [prompt] })
    const client = await started.bridge()
    writeFileSync(gate, "go\n")
    await client.until(() => events(client).some(({ type }) => type === "prompt.state"))
    expect(await activityOf(started)).toMatchObject({ prompts: [prompt] })
    writeFileSync(gate, "go\n")
    expect(await when(started, ({ prompts }) => prompts.length === 0)).toMatchObject(none)
    await stop(started)
  })

  it("[R1.9] [R1.10] names commands in the background and terminals, with the number of their viewers", async () => {
    const { started } = await ready()
    const { socket } = started
    const post = async (path: string, body: object) => (await ask(socket, "POST", path, body)).body
    const first = await activityOf(started)
    const { id } = await post("/commands", sh("sleep 1000"))
    const command = await after(started, first)
    expect(command.commands).toEqual([id])
    const terminal = (await post("/terminals", { cols: 80, rows: 24, command: ["sh"] })).id
    expect((await after(started, command)).terminals).toEqual([{ id: terminal, viewers: 0 }])
    const url = `ws+unix://${socket}:/terminals/${terminal}/attach`
    const viewer = await TestViewer.open(url, AUTHORIZED)
    const viewers = (count: number) =>
      when(started, ({ terminals: [open] }) => open?.viewers === count)
    await viewers(1)
    // A process in the terminal's session belongs to the terminal; a process that left the session is to outlive it.
    viewer.type("(sleep 1000 &); setsid -f sleep 1000; echo do''ne\n")
    await viewer.see(/done/)
    expect(await when(started, (now) => now.leftProcesses > 0)).toMatchObject({ leftProcesses: 1 })
    viewer.socket.close()
    await viewers(0)
    await ask(socket, "DELETE", `/commands/${id}`)
    expect((await activityOf(started)).commands).toEqual([])
    const again = await TestViewer.open(url, AUTHORIZED)
    again.type("exit\n")
    await again.closed
    const last = await when(started, ({ terminals }) => terminals.length === 0)
    expect(last.leftProcesses).toBeGreaterThanOrEqual(1)
    await when(started, ({ leftProcesses }) => leftProcesses === 1)
    await stop(started)
  })

  it("[R1.7] counts the processes that prompts left running, also outside their session and without a mark, until they end", async () => {
    const { started, client } = await ready()
    const { family } = started
    const ways = [
      "sleep 1000 &",
      "nohup setsid sleep 1000 > nohup.out 2>&1 &",
      "setsid sh -c 'sleep 1000 & exit'",
      "(setsid sh -c 'sh -c \"sleep 1000 &\" &' &)",
      // These have no mark of their prompt.
      `setsid -f ${BARE} sleep 1000`,
      `setsid -f ${BARE} sh -c 'sleep 1000 & exit'`,
    ]
    const own = new Set(family.running())
    const left = () => family.running().filter((pid) => !own.has(pid))
    // A shell in between may need a moment to end.
    const counts = (count: number) =>
      until(async () => (await activityOf(started)).leftProcesses === count)
    for (const [place, text] of ways.entries()) {
      await run(client, text)
      await counts(place + 1)
    }
    const stopped = say(client, "sleep 1000 & setsid -f sleep 1000; sleep 1000")
    await when(started, ({ prompts }) => prompts.includes(stopped))
    client.say({ type: "prompt.stop", prompt: stopped })
    await when(started, ({ prompts }) => prompts.length === 0)
    await counts(ways.length)
    expect(left()).toHaveLength(ways.length)
    const waiting = when(started, ({ leftProcesses }) => leftProcesses === 0)
    for (const pid of left()) process.kill(pid, "SIGKILL")
    await waiting
    await stop(started)
  })

  it("[R1.7] does not count the processes of a hook, a sidecar or a command, also when they left its session", async () => {
    const made = makePlaces()
    const app = join(made.places.workspace, "app")
    const repo = { directory: "app", source: { kind: "remote" as const, url: `file://${app}` } }
    mkdirSync(join(app, ".berth"), { recursive: true })
    const lines = ["setsid -f sleep 1000", `setsid -f ${BARE} sleep 1000`, "sleep 1000 &"]
    writeFileSync(join(app, ".berth/start.sh"), `#!/bin/sh\n${lines.join("\n")}\n`)
    chmodSync(join(app, ".berth/start.sh"), 0o755)
    // Goes on to start processes after the boot, without a mark, in the sidecar's session.
    const lasting = `while :; do (${BARE} sleep 0.1 &); sleep 0.05; done`
    const sidecar = {
      name: "daemon",
      command: ["sh", "-c", `setsid -f sleep 1000; echo up; ${lasting}`],
    }
    const { started } = await ready(
      {
        mode: "restore",
        repos: [repo],
        sidecars: [{ ...sidecar, ready: { line: "up" }, required: true }],
      },
      made,
    )
    const counted = made.family.running().length
    expect(counted).toBeGreaterThan(5)
    const { body } = await ask(
      started.socket,
      "POST",
      "/commands",
      sh("setsid -f sleep 1000; sleep 1000"),
    )
    for (let looks = 0; looks < 5; looks++)
      expect(await activityOf(started)).toMatchObject({ commands: [body.id], leftProcesses: 0 })
    await stop(started)
  })

  it("refuses a malformed query, survives a client that hangs up, and ends a waiting request when the supervisor stops", async () => {
    const { started } = await ready()
    for (const query of ["after=x", "after=-1", "after=0&wait=25001", "after=0&wait=1.5"])
      expect(await get(started.socket, `/activity?${query}`)).toMatchObject({ status: 400 })
    const { version } = await activityOf(started)
    const path = `/activity?after=${version}&wait=20000`
    const sent = request({ socketPath: started.socket, path, headers: AUTHORIZED })
    const broken = new Promise((resolve) => sent.once("error", resolve))
    sent.end()
    await new Promise<void>((resolve) => sent.once("finish", () => resolve()))
    sent.destroy()
    await broken
    const waiting = get(started.socket, path)
    // By then the waiting request has arrived.
    expect(await activityOf(started)).toMatchObject({ version })
    // A request that still waits does not hold up the supervisor's end.
    started.child.kill("SIGTERM")
    expect(await waiting.then(({ status }) => status)).toBe(499)
    expect(await started.ended).toEqual({ status: 0, signal: null })
    expect(started.errors()).toBe("")
  })
})
