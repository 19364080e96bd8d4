import { expect } from "vitest"
import type { Machine } from "../newcomer.ts"

/** The first lines that a newcomer types in the clone. */
export const npm = ({ journey }: Machine): void =>
  journey(
    "npm",
    "lists the project's scripts in a fresh clone without a warning",
    async ({ sees }) => {
      const shown = await sees("cd berth && npm run")
      expect(shown).toMatch(/demo.*test/s)
      expect(shown.replaceAll(/^npm warn Unknown user config.*\n/gm, "")).not.toMatch(/warn/i)
    },
  )
