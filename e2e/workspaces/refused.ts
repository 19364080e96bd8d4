import { mkdirSync } from "node:fs"
import { join } from "node:path"
import type { SandboxView } from "@berth/protocol/sandboxes"
import { expect, it } from "vitest"
import type { BackendName } from "../backends.ts"
import { makeRepo } from "../boot/stage.ts"
import type { setStage } from "../leases/stage.ts"
import { ran } from "./ran.ts"

type Stage = Awaited<ReturnType<typeof setStage>>

/** An image of a registry at which no server listens. */
const NO_IMAGE = "127.0.0.1:1/debian"

const IMAGE_WORDS: Readonly<Record<BackendName, string>> = {
  embedded: "an image needs a backend that has images",
  docker: `there is no image ${NO_IMAGE}`,
}

export const refusedCommands = (stage: () => Stage, backend: BackendName): void => {
  it("leaves the workspace, its sandbox, its leases and its sessions as they were", async () => {
    const { base, told, client } = stage()
    const repo = makeRepo(join(base, "calm"), { README: "calm\n" })
    const plain = join(base, "plain")
    mkdirSync(plain)
    expect(await told("up", repo, "--network", "none")).toMatchObject({ status: 0 })
    const session = await client().sessions.create({ workspace: "calm" })
    const sandbox = String(await ran(session, "true", expect))
    // A session that keeps the sandbox is no use of it: only the refusal protects the sandbox.
    await expect.poll(() => stage().usersOf({ id: sandbox as never })).toHaveLength(1)
    const now = async () => ({
      workspace: await client().workspaces.get("calm"),
      sandboxes: (await client().sandboxes.list()).map(withoutExpiry),
      sessions: await client().sessions.list(),
    })
    const before = await now()
    const { leases: held = [] } =
      before.sandboxes.find(({ identity }) => identity.sandbox === sandbox) ?? {}
    expect(held).toHaveLength(1)
    const run = ["run", "--workspace", "calm"]
    const up = ["up", "--network", "none", "--name", "calm"]
    const refused: [string[], number, string][] = [
      [[...run, "--agent", "opencode", "--key", "MISSING", "x"], 1, "has no key MISSING"],
      [[...run, "--env", "A=2", ""], 2, "the prompt is empty"],
      [[...run, "--image", NO_IMAGE, "x"], 1, IMAGE_WORDS[backend]],
      [[...run, "--network", "some", "x"], 2, "--network is open or none"],
      [[...run, "--agent", "nobody", "x"], 2, "--agent is"],
      [[...up, repo, "--key", "MISSING"], 1, "has no key MISSING"],
      [[...up, repo, "--image", NO_IMAGE], 1, IMAGE_WORDS[backend]],
      [[...up, repo, "--ref", "nowhere"], 1, "the repo has no nowhere"],
      [[...up, join(base, "nothing")], 2, "there is no"],
      [[...up, plain], 1, "is for another repo"],
      [["up", plain], 1, "the repo on the host cannot be used"],
      [["fork", "calm", "calm"], 1, "there is a workspace calm already"],
      [["hold", "calm", "--for", "soon"], 2, "--for"],
    ]
    for (const [[name = "", ...args], status, words] of refused) {
      const { stderr, ...end } = await told(name, ...args)
      const said = `berth ${name} ${args.join(" ")}: ${stderr}`
      expect(said).toContain(words)
      expect(end, said).toEqual({ stdout: "", status })
      expect(await now(), said).toEqual(before)
    }
    const twice = { slug: "calm", repos: [{ url: repo }, { url: "https://example.com/calm" }] }
    for (const call of [
      () => client().sandboxes.create({ workspace: twice }),
      () => client().sessions.create({ workspace: twice }),
    ])
      await expect(call()).rejects.toMatchObject({ code: "input.invalid" })
    expect(await now()).toEqual(before)
    await expect(client().workspaces.get("plain")).rejects.toMatchObject({ code: "not_found" })
  })
}

/** Leaves out the ends of leases: they follow the wall clock, whose milliseconds may differ at the next look. */
const withoutExpiry = (view: SandboxView) => ({
  ...view,
  leases: view.leases.map(({ expiresAt: _, ...lease }) => lease),
})
