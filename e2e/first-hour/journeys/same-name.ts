import { join } from "node:path"
import { expect } from "vitest"
import { makeRepo } from "../../boot/stage.ts"
import type { Machine } from "../newcomer.ts"
import type { Meanwhile } from "../person.ts"

/** Two repos of one name. */
export const sameName = ({ journey }: Machine): void =>
  journey(
    "same-name",
    "is refused a repo whose name another workspace has, and both ways out that the refusal names work",
    async ({ home, sees }) => {
      for (const folder of ["a", "b"]) makeRepo(join(home, folder, "app"), { WHOSE: `${folder}\n` })
      const whose = (name: string) => sees(`berth exec ${name} -- cat WHOSE`)
      await sees("berth up ./a/app --network none")
      const other = "berth up ./b/app --network none"
      const refused = await sees(other, { status: 1 })
      expect(refused).toContain(`berth: the workspace app is for another repo: ${home}/a/app\n`)
      expect(refused).toMatch(/hint: .*--name.*--replace/)
      expect(await whose("app")).toBe("a")
      await sees(`${other} --name app-b`)
      expect(await whose("app-b")).toBe("b")
      const answering =
        (answer: string): Meanwhile =>
        async ({ type, see }) => {
          await see(/another repo: .*\/a\/app.*replace it\? \[y\/N\] $/s)
          type(`${answer}\n`)
        }
      await sees(`${other} --replace`, { status: 1, meanwhile: answering("n") })
      expect(await whose("app")).toBe("a")
      await sees(`${other} --replace`, { meanwhile: answering("y") })
      expect(await whose("app")).toBe("b")
      await sees("berth rm app app-b")
    },
  )
