import { sampled } from "@berth/testing/sampled"
import { expect, it } from "vitest"
import { BE_REFUSED, MAKE_A_FILE } from "./agents.ts"
import { DEADLINE_MS, type Stage } from "./stage.ts"

/** Adds the cases of agents by their name on the command line, in sandboxes where Codex could make none of its own. */
export const describeByName = (stage: () => Stage) => {
  const berth = async (args: readonly string[]) => {
    const { stdout, stderr, status } = await stage().server.berth(args)
    return { stdout: stdout.toString("utf8"), stderr, status }
  }

  it.each(sampled("agents by their name", ["codex", "claude"] as const, 1))(
    "`berth run` with %s ends with the changes of its commands, and fails when its turn fails",
    async (name) => {
      // A model of its own, since a model plays its script once.
      const slug = `${name}-by-name`
      const workspace = { ...stage().workspace(name), slug }
      const sandbox = await stage().server.client().sandboxes.create({ workspace })
      const made = await berth(["run", "--workspace", slug, MAKE_A_FILE])
      expect(made.stderr).toMatch(/\nsucceeded\n/)
      expect(made.stdout).toContain("+++ b/made.txt\n@@ -0,0 +1 @@\n+made\n")
      expect(made.status).toBe(0)

      const refused = await berth(["run", "--workspace", slug, "--no-diff", BE_REFUSED])
      expect(refused.stderr).toMatch(
        /\nfailed: \w+ is not logged in, or its key is refused .*--key/,
      )
      expect(refused.status).toBe(1)
      await sandbox.remove({ force: true })
    },
    2 * DEADLINE_MS,
  )

  it(
    "keeps codex from acting under --permissions deny, and refuses a program that nothing holds",
    async () => {
      const workspace = { ...stage().workspace("codex"), slug: "codex-held" }
      const agent = { ...workspace.agent, permissions: "deny" } as typeof workspace.agent
      const sandbox = await stage()
        .server.client()
        .sandboxes.create({
          workspace: { ...workspace, agent },
        })
      const held = await berth(["run", "--workspace", "codex-held", MAKE_A_FILE])
      expect(held.stderr).toMatch(/\nnothing has changed in app\n/)
      expect(held.stderr).toMatch(/denied/)
      expect(held.status).toBe(0)
      expect((await sandbox.commands.run("ls app")).stdout).toBe("README\n")

      const any = ["--agent", "acp:some-agent", "--permissions", "ask"]
      const refused = await berth(["run", "--workspace", "codex-held", ...any, "x"])
      expect(refused.stderr).toContain(
        "some-agent decides itself what it asks for, so nothing holds it to --permissions ask",
      )
      expect(refused.status).toBe(1)
      await sandbox.remove({ force: true })
    },
    DEADLINE_MS,
  )
}
