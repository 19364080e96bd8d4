import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect } from "vitest"
import type { Machine, Newcomer } from "../newcomer.ts"

const refusedTo =
  (sees: Newcomer["sees"]) =>
  async (line: string, status = 1): Promise<string> => {
    const shown = await sees(line, { status })
    expect(shown).not.toMatch(/\/v1\/|\bSANDBOX\b|defect in Berth/)
    return shown
  }

/** Common mistakes, and the messages that answer them. */
export const words = ({ journey, furtherJourney }: Machine): void => {
  journey(
    "words",
    "is told what is missing or wrong in the words of the command line",
    async ({ dataDir, sees }) => {
      const refused = refusedTo(sees)
      expect(await refused("berth run 'npm test'", 2)).toContain("this is not in a git repo")
      expect(await refused("berth exec sb-q4 -- true", 125)).toContain("there is no sandbox sb-q4")
      expect(await refused("berth boot nobody")).toContain("there is no sandbox nobody")
      expect(await refused("berth log nobody")).toContain("there is no session nobody")
      await sees("cd my-repo")
      expect(await refused("berth run ''", 2)).toContain("the prompt is empty")
      expect(await refused("berth run --agent nobody 'fix it'", 2)).toContain(
        "--agent is shell, opencode, claude, codex or acp:COMMAND, not nobody",
      )
      const keys = join(dataDir, "keys.env")
      expect(await sees("berth config")).toContain(keys)
      writeFileSync(keys, "ONE=1\nthis is no key\n", { mode: 0o600 })
      expect(await refused("berth run --agent claude --key ONE 'fix it'")).toMatch(
        /line 2 of the file of keys is not NAME=value: .*keys\.env/,
      )
      writeFileSync(keys, "")
      expect(await refused("berth run --agent shell --permissions deny 'ls'", 2)).toContain(
        "berth: --permissions is not for the agent shell",
      )
    },
  )

  furtherJourney(
    "words-opencode",
    "is told that OpenCode needs a model, and how to name one, before anything is made",
    async ({ sees }) => {
      await sees("cd my-repo")
      expect(await refusedTo(sees)("berth run --agent opencode 'fix it'")).toMatch(/--model/)
      expect(await sees("berth ps --json")).not.toContain('"my-repo"')
    },
  )
}
