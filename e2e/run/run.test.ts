import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { Event } from "@berth/protocol/event"
import { Transcript } from "@berth/protocol/sessions"
import { sampled } from "@berth/testing/sampled"
import { expect, it } from "vitest"
import { BACKENDS, type BackendName, describeOn } from "../backends.ts"
import { makeRepo } from "../boot/stage.ts"
import { startProcess } from "./process.ts"
import { runStage, STAGE_DEADLINE_MS } from "./stage.ts"

const describeRun = (backend: BackendName): void => {
  const stage = runStage(backend)

  const start = (args: readonly string[], cwd = stage().repo) => {
    const { server } = stage()
    const [node = "", ...own] = server.commandOf(args)
    return startProcess(node, own, { env: server.env, cwd })
  }
  const run = (args: readonly string[], cwd = stage().repo) => start(args, cwd).ended

  it(
    "boots in the repo of the current folder, shows the prompt's output, and ends with the diff",
    async () => {
      mkdirSync(join(stage().repo, "deep/down"), { recursive: true })
      const prompt = "echo one; echo two >> README; echo new > new.txt"
      const { stdout, stderr, status } = await run(["run", prompt], join(stage().repo, "deep/down"))
      expect(stderr).toMatch(
        /^session ses-\w+\n(.*\n)*boot: ready after \d+ ms\n(.*\n)*succeeded\n$/,
      )
      expect(stdout).toMatch(/^one\ndiff --git a\/README b\/README\n/)
      expect(stdout).toContain("\n hello\n+two\n")
      expect(stdout).toContain("\n+++ b/new.txt\n")
      expect(status).toBe(0)
      expect(await run(["run", "--no-diff", "echo three"])).toMatchObject({
        stdout: "three\n",
        status: 0,
      })
    },
    STAGE_DEADLINE_MS,
  )

  it(
    "[R3.2] goes on with a session, and writes its events as JSON, one a line",
    async () => {
      const session = (await run(["run", "--detach", "echo first"])).stdout.trim()
      const again = await run(["run", "--session", session.slice(0, 12), "--json", "exit 3"])
      expect(again).toMatchObject({ stderr: "", status: 1 })
      const events = again.stdout.trimEnd().split("\n")
      const parsed = events.map((line) => Event.parse(JSON.parse(line)))
      expect(parsed.at(-1)?.body).toMatchObject({
        type: "prompt.state",
        state: "failed",
        reason: "the command ended with status 3",
      })
      const { stdout } = await run(["log", session, "--json"])
      const { turns } = Transcript.parse(JSON.parse(stdout))
      expect(turns.map(({ prompt: { number, text, state } }) => ({ number, text, state }))).toEqual(
        [
          { number: 1, text: "echo first", state: "succeeded" },
          { number: 2, text: "exit 3", state: "failed" },
        ],
      )
    },
    STAGE_DEADLINE_MS,
  )

  it(
    "fails with the reason when the prompt fails",
    async () => {
      const { stderr, status } = await run(["run", "--no-diff", "echo wrong >&2; exit 4"])
      expect(stderr).toMatch(/\nfailed: the command ended with status 4\n$/)
      expect(status).toBe(1)
    },
    STAGE_DEADLINE_MS,
  )

  it(
    "[R3.3] stops the prompt at Ctrl-C, and the session takes the next prompt",
    async () => {
      const child = start(["run", "echo begun; sleep 4713"])
      await child.see("begun")
      child.kill("SIGINT")
      const { stderr, status } = await child.ended
      expect(stderr).toMatch(/\nstopping; once more leaves at once\nstopped/)
      expect(status).toBe(130)
      const session = /session (\S+)/.exec(stderr)?.[1] ?? ""
      expect(await run(["run", "--no-diff", "--session", session, "echo next"])).toMatchObject({
        stdout: "next\n",
        status: 0,
      })
    },
    STAGE_DEADLINE_MS,
  )

  it(
    "[R3.4] goes on when the server is killed and started again in the middle",
    async () => {
      const child = start([
        "run",
        "--no-diff",
        "echo before; until [ -e go ]; do sleep 0.05; done; echo after",
      ])
      await child.see("before")
      await stage().server.kill()
      await child.see("it is waited for", "stderr")
      await stage().server.restart()
      expect(
        (await run(["exec", "app", "--cwd", "/workspace/app", "--", "touch", "go"])).status,
      ).toBe(0)
      expect(await child.ended).toMatchObject({ stdout: "before\nafter\n", status: 0 })
    },
    STAGE_DEADLINE_MS,
  )

  it(
    "leaves at the second Ctrl-C, also when no server hears the first, and the prompt goes on",
    async () => {
      const child = start([
        "run",
        "--no-diff",
        "echo begun; until [ -e left ]; do sleep 0.05; done; echo alone",
      ])
      await child.see("begun")
      await stage().server.kill()
      child.kill("SIGINT")
      await child.see("stopping", "stderr")
      child.kill("SIGINT")
      const { stderr, status } = await child.ended
      expect(status).toBe(130)
      const [, session = ""] = /left; to come back: berth log --follow (\S+)\n/.exec(stderr) ?? []
      await stage().server.restart()
      const follower = start(["log", session, "--follow"])
      await follower.see("begun")
      await run(["exec", "app", "--cwd", "/workspace/app", "--", "touch", "left"])
      await follower.see("(succeeded)")
      follower.kill("SIGINT")
      expect(await follower.ended).toMatchObject({
        stdout: expect.stringMatching(/^> echo begun.*\nbegun\nalone\n\(succeeded\)\n$/),
        status: 0,
      })
    },
    STAGE_DEADLINE_MS,
  )

  it(
    "follows a queue and shows each prompt once, whether the first one waits or runs",
    async () => {
      const prompt = "echo begun; until [ -e one ]; do sleep 0.05; done"
      const session = (await run(["run", "--detach", prompt])).stdout.trim()
      const follow = () => start(["log", session, "--follow"])
      const early = follow()
      const queue = (prompt: string) => run(["run", "--session", session, "--detach", prompt])
      await queue("echo two")
      await queue("echo three")
      await early.see("\nbegun")
      const followers = [early, follow()]
      for (const follower of followers) await follower.see("\nbegun")
      await run(["exec", "app", "--cwd", "/workspace/app", "--", "touch", "one"])
      for (const follower of followers) {
        await follower.see("three\n(succeeded)")
        follower.kill("SIGINT")
        expect((await follower.ended).stdout.match(/^(>.*|\w+|\(succeeded\))$/gm)).toEqual([
          ...[`> ${prompt}`, "begun", "(succeeded)"],
          ...["> echo two", "two", "(succeeded)"],
          ...["> echo three", "three", "(succeeded)"],
        ])
      }
    },
    STAGE_DEADLINE_MS,
  )

  it(
    "leaves a workspace as it is, except for the keys that its flags set",
    async () => {
      const described = makeRepo(join(stage().server.base, "described"), { README: "hello\n" })
      await run(["up", described, "--env", "ONE=1", "--network", "none"])
      const say = ["--no-diff", 'echo "$ONE$TWO"; ls /sys/class/net']
      expect(await run(["run", ...say], described)).toMatchObject({ stdout: "1\nlo\n", status: 0 })
      const more = await run(["run", "--workspace", "described", "--env", "TWO=2", ...say], "/")
      expect(more).toMatchObject({ stdout: "12\nlo\n", status: 0 })
    },
    STAGE_DEADLINE_MS,
  )

  it(
    "refuses a prompt to OpenCode without a model: before anything is made, unless the system or the repo can bring one",
    async () => {
      const bare = makeRepo(join(stage().server.base, "bare"), { README: "hello\n" })
      const told = await run(["run", "--agent", "opencode", "fix it"], bare)
      expect(told).toMatchObject({ stdout: "", status: 1 })
      expect(told.stderr).toContain("OpenCode has no model: ")
      const workspaces: string[] = (await stage().server.client().sandboxes.list()).map(
        ({ identity }) => identity.workspace,
      )
      // An image can have a configuration of OpenCode, so that is asked inside.
      expect(workspaces.includes("bare")).toBe(backend === "docker")
      const configured = makeRepo(join(stage().server.base, "configured"), {
        "opencode.json": "{}\n",
      })
      const workspace = { slug: "configured", repos: [{ url: configured }] }
      const agent = { kind: "opencode" } as const
      await stage()
        .server.client()
        .sessions.create({ workspace: { ...workspace, agent } })
      await stage().server.client().workspaces.remove("configured")
    },
    STAGE_DEADLINE_MS,
  )

  const REFUSED: [string[], number, string][] = [
    [["run", "--workspace", "nobody", "true"], 1, "there is no workspace nobody"],
    [["run", "--session", "ses-nobody", "true"], 1, "there is no session ses-nobody"],
    [
      ["run", "--session", "x", "--workspace", "app", "true"],
      2,
      "--session goes on in its workspace",
    ],
    [
      ["run", "--workspace", "app", "--model", "a/b", "true"],
      2,
      "--model is not for the agent shell; name another with --agent",
    ],
    [["answer", "app"], 2, "one of --allow, --deny, --decline and an answer is needed"],
  ]
  it.each(sampled(`commands that are refused, berth run, ${backend}`, REFUSED, 2))(
    "refuses %j",
    async (args, status, message) => {
      const told = await run(args, "/")
      expect(told).toMatchObject({ stdout: "", status })
      expect(told.stderr).toContain(message)
    },
  )
}

describeOn(sampled("backends of berth run", BACKENDS, 1), "berth run", describeRun)
