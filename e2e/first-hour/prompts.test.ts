import { SessionList } from "@berth/protocol/sessions"
import { BERTH } from "@berth/testing/berth"
import { sampled } from "@berth/testing/sampled"
import { expect, it, vi } from "vitest"
import { BACKENDS, type BackendName, describeOn } from "../backends.ts"
import { startProcess } from "../run/process.ts"
import { runStage, STAGE_DEADLINE_MS } from "../run/stage.ts"
import type { Case } from "./journey.ts"

const describePrompts = (backend: BackendName): void => {
  vi.setConfig({ testTimeout: STAGE_DEADLINE_MS })
  const stage = runStage(backend)

  const berth = (...args: readonly string[]) => {
    const { server, repo } = stage()
    const [node, ...own] = BERTH
    const env = { ...server.env, BERTH_DATA_DIR: server.dataDir }
    return startProcess(node, [...own, ...args], { env, cwd: repo }).ended
  }
  const sessions = async () =>
    SessionList.parse(JSON.parse((await berth("sessions", "--json")).stdout)).sessions

  const cases: readonly Case[] = [
    {
      title:
        "`sessions rm` removes a named session, and one whose prompt runs only when it is forced",
      work: async () => {
        const idle = (await berth("run", "--detach", "true")).stdout.trim()
        await berth("run", "--session", idle, "--no-diff", "true")
        const busy = (await berth("run", "--detach", "sleep 1000")).stdout.trim()
        expect(await berth("sessions", "rm", idle.slice(0, 12), busy)).toMatchObject({
          status: 1,
          stdout: `${idle}\n`,
          stderr: expect.stringMatching(/^berth: a prompt of ses-\w+ runs or waits\n/),
        })
        expect((await sessions()).map(({ id }) => id)).toEqual([busy])
        expect(await berth("sessions", "rm", "--all", "--force", "--json")).toMatchObject({
          status: 0,
          stdout: `${JSON.stringify({ removed: [busy] })}\n`,
        })
        expect(await sessions()).toEqual([])
        expect((await berth("log", busy)).stderr).toContain(`there is no session ${busy}`)
      },
    },
    {
      title: "`sessions` lists the sessions of a removed workspace as closed",
      work: async () => {
        await berth("run", "--detach", "true")
        await berth("rm", "app", "--force")
        expect((await sessions()).map(({ state }) => state)).toEqual(["closed"])
      },
    },
    {
      title:
        "`run` with another agent runs in the workspace's sandbox, and leaves the workspace's agent as it is",
      work: async () => {
        const up = await berth("up", "--json", "--agent", "opencode")
        const run = await berth("run", "--no-diff", "--agent", "shell", "pwd")
        expect(run).toMatchObject({ status: 0, stdout: "/workspace/app\n" })
        expect(run.stderr).toContain("agent: shell (for this session)\n")
        expect(idIn((await berth("ps", "--json")).stdout)).toBe(idIn(up.stdout))
        const { agent } = await stage().server.client().workspaces.get("app")
        expect(agent.kind).toBe("opencode")
      },
    },
  ]
  for (const { title, work } of sampled(`prompts in the first hour, ${backend}`, cases, 1))
    it(title, work)
}

describeOn(
  sampled("backends of prompts in the first hour", BACKENDS, 1),
  "prompts in the first hour",
  describePrompts,
)

const idIn = (json: string) => /sb-\w+/.exec(json)?.[0] ?? json
