import { withoutWaits } from "@berth/testing/without-waits"
import { expect } from "vitest"
import type { Machine } from "../newcomer.ts"

/** Sessions, from their first prompt until they and their workspaces are removed. */
export const conversations = ({ journey }: Machine): void =>
  journey(
    "conversations",
    "lists, removes and closes sessions, and removes all sandboxes",
    async ({ sees }) => {
      await sees("cd my-repo && berth up --network none")
      expect(withoutWaits(await sees("berth run 'echo hello'"))).toMatch(
        /^session (ses-\w+)\nhello\nsucceeded\nnothing has changed in my-repo$/,
      )
      const listed = await sees("berth sessions")
      const [, first = ""] =
        /^SESSION .*STATE .*\n(ses-\w+) +my-repo +shell +open/.exec(listed) ?? []
      expect(await sees(`berth sessions rm ${first}`)).toBe(first)
      expect(await sees("berth sessions")).toBe("There is no session: berth run begins one.")
      const second = await sees("berth run --detach 'sleep 1000'")
      expect(await sees(`berth sessions rm ${second}`, { status: 1 })).toContain(
        `berth: a prompt of ${second} runs or waits`,
      )
      expect(await sees("berth stop --prompt my-repo")).toMatch(/^pr-\w+$/)
      expect(await sees("berth rm --all")).toMatch(/^sb-\w+$/)
      expect(await sees("berth sessions")).toMatch(
        new RegExp(`\\n${second} +my-repo +shell +closed`),
      )
      expect(await sees("berth ps")).toBe("There is no sandbox: berth up makes one.")
    },
  )
