import { expect } from "vitest"
import type { Machine } from "../newcomer.ts"

/** A command that the server refuses, typed while the sandbox is in use. */
export const refusedCommand = ({ journey }: Machine): void =>
  journey(
    "refused-command",
    "keeps a sandbox in use running when a command is refused",
    async ({ sees }) => {
      await sees("cd my-repo")
      const command = await sees(
        "berth exec -d my-repo -- sh -c 'echo $$ > /tmp/pid; exec sleep 1000'",
      )
      const list = async () => (await sees("berth ps")).replace(/ready +\d+ \w+/, "ready")
      const before = await list()
      expect(before).toContain(`used by command ${command}`)
      const run = `berth run --agent opencode --key MISSING "x"`
      expect(await sees(run, { status: 1 })).toContain("the server has no key MISSING")
      expect(await sees(`berth run --env A=2 ""`, { status: 2 })).toContain("the prompt is empty")
      for (const verb of ["stop", "rm"])
        expect(await sees(`berth ${verb} my-repo`, { status: 1 })).toMatch(
          new RegExp(`^berth: sb-\\w+ is used by command ${command}\\n`),
        )
      expect(await list()).toBe(before)
      await sees("berth exec my-repo -- sh -c 'kill $(cat /tmp/pid)'")
    },
  )
