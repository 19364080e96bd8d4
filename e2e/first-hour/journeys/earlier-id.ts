import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect } from "vitest"
import type { Machine } from "../newcomer.ts"

/** The id of a stopped sandbox, as people have it in their notes and scripts. */
export const earlierId = ({ journey }: Machine): void =>
  journey(
    "earlier-id",
    "is led from the id of a stopped sandbox to the current one by exec, cp, shell, boot, why, hold and rm, which say so",
    async ({ home, sees }) => {
      await sees("cd my-repo")
      await sees("old=$(berth up --network none)")
      const old = (await sees("echo $old")).trim()
      await sees(`berth exec $old -- sh -c 'echo "still here" > kept'`)
      expect(await sees("berth stop $old")).toBe(old)
      // The first use after a stop starts the next sandbox, by any verb.
      const held = await sees("berth hold $old")
      const [, now = "", hold = ""] =
        /^\S+ is now (sb-\w+)\n(ls-\w+)\nsb-\w+ is held until it is released$/.exec(held) ?? []
      expect(now, held).not.toBe("")
      const said = `${old} is now ${now}`
      await sees(`berth hold --release ${hold}`)
      expect(await sees("berth exec $old -- cat kept")).toBe(`${said}\nstill here`)
      // The beginning of the id leads there as well.
      expect(await sees(`berth exec ${old.slice(0, 12)} -- true`)).toBe(said)
      writeFileSync(join(home, "my-repo/sent"), "sent\n")
      expect(await sees("berth cp sent $old:sent")).toContain(said)
      expect(await sees("berth shell $old -- cat /workspace/sent")).toMatch(
        new RegExp(`${said}[^]*\\nsent$`),
      )
      expect(await sees("berth boot $old")).toContain(said)
      expect(await sees("berth why $old")).toContain(`${old}, which it took the place of`)
      expect(await sees("berth rm $old --force")).toBe(`${said}\n${now}`)
      expect(await sees("berth ps")).toBe("There is no sandbox: berth up makes one.")
      expect(await sees("berth exec $old -- true", { status: 125 })).toContain(
        `berth: ${old} has ended`,
      )
    },
  )
