import { CommandList } from "@berth/protocol/commands"
import { expect } from "vitest"
import { CTRL_C, type Machine } from "../newcomer.ts"

/** A page that a command in the background serves, and the end of such commands. */
export const background = ({ journey }: Machine): void =>
  journey(
    "background",
    "runs a command in the background, brings its port to this machine, lists, follows and ends it",
    async ({ sees }) => {
      const page = await sees("berth exec -d my-repo -- /opt/berth/bin/node page.js")
      const shown = await sees("berth commands")
      expect(shown).toMatch(/^COMMAND /)
      expect(shown).toMatch(
        new RegExp(`^${page} +my-repo +runs +\\d+ s +/opt/berth/bin/node page.js$`, "m"),
      )
      await sees("berth port-forward my-repo 0:3000", {
        meanwhile: async ({ type, see }) => {
          const [, address] = await see(/(127\.0\.0\.1:\d+) leads to port 3000/)
          const get = async () => (await fetch(`http://${address}`)).text()
          await expect.poll(() => get().catch(() => "")).toBe("a page")
          type(CTRL_C)
        },
      })
      await sees("berth commands log my-repo --follow", {
        status: 130,
        meanwhile: async ({ type, see }) => {
          await see(/a page is served/)
          type(CTRL_C)
        },
      })
      expect(await sees(`berth commands stop my-repo ${page.slice(0, 12)}`)).toBe(page)
      expect(await sees(`berth commands log my-repo ${page}`, { status: 125 })).toContain(
        `has no command ${page} in the background`,
      )
      const failing = await sees("berth exec -d my-repo -- sh -c 'echo one; echo two >&2; exit 3'")
      const followed = await sees("berth commands log my-repo --follow", { status: 3 })
      expect(followed.split("\n").sort()).toEqual(["(ended with 3)", "one", "two"])
      const listed = await sees("berth commands my-repo --json")
      // Other journeys may have left commands of theirs that ended.
      const { commands } = CommandList.parse(JSON.parse(listed))
      expect(commands.filter(({ id }) => id === failing)).toMatchObject([{ exit: { status: 3 } }])
    },
  )
