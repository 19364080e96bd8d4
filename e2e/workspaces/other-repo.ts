import { join } from "node:path"
import { beforeAll, expect, it } from "vitest"
import { makeRepo } from "../boot/stage.ts"
import type { setStage } from "../leases/stage.ts"
import { startProcess } from "../run/process.ts"

type Stage = Awaited<ReturnType<typeof setStage>>

const DEADLINE_MS = 60_000

export const otherRepo = (stage: () => Stage): void => {
  let mine: string
  let other: string
  let first: string
  beforeAll(async () => {
    const { base, told } = stage()
    mine = makeRepo(join(base, "a/app"), { WHOSE: "a\n" })
    other = makeRepo(join(base, "b/app"), { WHOSE: "b\n" })
    first = (await told("up", mine, "--network", "none")).stdout.trim()
  }, DEADLINE_MS)

  const whose = async (sandbox: string) => (await files(sandbox)).stdout
  const files = (sandbox: string) =>
    stage().sandbox(sandbox).commands.run("cat /workspace/app/WHOSE")
  const runIn = (cwd: string, ...args: readonly string[]) => {
    const [node = "", ...own] = stage().commandOf(args)
    return startProcess(node, own, { env: stage().env, cwd }).ended
  }

  it("is refused to every client, with both ways out, and the workspace keeps its repo", async () => {
    const workspace = { slug: "app", repos: [{ url: other }] }
    const refusal = {
      code: "workspace.other_repo",
      status: 409,
      retry: "never",
      details: { workspace: "app", repo: mine, asked: other },
    }
    const { client, access, told } = stage()
    await expect(client().sandboxes.create({ workspace })).rejects.toMatchObject(refusal)
    await expect(client().sessions.create({ workspace })).rejects.toMatchObject(refusal)
    const { url, token } = access()
    const reply = await fetch(`${url}/v1/sandboxes`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ workspace }),
    })
    expect({ status: reply.status, body: await reply.json() }).toMatchObject({
      status: 409,
      body: { code: "workspace.other_repo" },
    })
    for (const told of [await stage().told("up", other), await runIn(other, "run", "true")]) {
      expect(told).toMatchObject({ stdout: "", status: 1 })
      expect(told.stderr).toContain(`berth: the workspace app is for another repo: ${mine}\n`)
      expect(told.stderr).toMatch(/hint: .*--name.*--replace/)
    }
    expect((await told("ps")).stdout).toContain(first)
    expect(await whose(first)).toBe("a\n")
    // A repo by another of its names is still that repo.
    const same = { slug: "app", repos: [{ url: `file://${mine}/` }], network: { kind: "none" } }
    await client().sandboxes.create({ workspace: same as never })
  })

  it(
    "replaces the other repo with --replace where there is no terminal, unless the sandbox is in use",
    async () => {
      const current = (await stage().client().sandboxes.named("app")).sandbox
      const held = await stage().sandbox(current).hold({ holder: "ada" })
      expect(await stage().told("up", other, "--replace")).toMatchObject({
        status: 1,
        stderr: expect.stringContaining("is used by a hold of ada"),
      })
      expect(await whose(current)).toBe("a\n")
      await stage().sandbox(current).release(held.id)
      expect(await runIn(other, "run", "--replace", "--no-diff", "cat WHOSE")).toMatchObject({
        stdout: "b\n",
        status: 0,
      })
    },
    DEADLINE_MS,
  )
}
