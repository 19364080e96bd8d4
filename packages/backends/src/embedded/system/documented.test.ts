import { readFile } from "node:fs/promises"
import { expect, it } from "vitest"
import { ETC_ENTRIES } from "./etc-entries.ts"
import { MASKED_PATHS, READ_ONLY_PATHS } from "./masked-paths.ts"

const document = new URL("../../../../../docs/SECURITY.md", import.meta.url)

it("lists the shown entries of /etc and the hidden paths of /proc and /sys in docs/SECURITY.md", async () => {
  const text = await readFile(document, "utf8")
  const [, etc = ""] = text.split("| of the host's `/etc` | why |")
  const rows = [...etc.matchAll(/^\| ([^`|]+) \| (.+) \|$/gm)].map(([, name, why]) => [name, why])
  expect(rows.filter(([name]) => name !== "---")).toEqual(
    expect.arrayContaining(Object.entries(ETC_ENTRIES)),
  )
  expect(rows.filter(([name = ""]) => name in ETC_ENTRIES)).toHaveLength(
    Object.keys(ETC_ENTRIES).length,
  )
  for (const path of [...MASKED_PATHS, ...READ_ONLY_PATHS]) expect(text).toContain(`\`${path}\``)
})
