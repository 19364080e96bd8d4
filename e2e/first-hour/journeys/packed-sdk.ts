import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect } from "vitest"
import type { Machine } from "../newcomer.ts"
import { readmeBlocks } from "../readme-blocks.ts"

/** The SDK, and the packages of this project that it needs. */
const PACKAGES = ["protocol", "local", "sdk"].map((name) => `--workspace=@berth/${name}`).join(" ")

/** A program of a project that has nothing but the packed SDK. */
const PROGRAM = `
import { createClient } from "@berth/sdk"
const { sandboxes, sessions } = createClient()
const sandbox = await sandboxes.create({ workspace: { slug: "packed", network: { kind: "none" } } })
await sandbox.ready()
const session = await sessions.create({ workspace: "packed" })
for (const prompt of ["echo hello", "exit 3"]) {
  const { state, reason, text } = await session.run(prompt)
  console.log(state, reason, text.trim())
}
const command = await sandbox.commands.run("echo from a command").catch(({ code, hint }) => ({ code, hint }))
console.log(JSON.stringify(command))
await sandbox.remove()
`

const TSC = `tsc --noEmit --strict --module nodenext --target esnext --lib esnext,dom --types node --typeRoots`

/** The SDK in a project without the rest of Berth. */
export const packedSdk = ({ journey }: Machine): void =>
  journey(
    "packed-sdk",
    "installs the packed SDK without a warning into an empty project, and runs programs there, also those of the README",
    async ({ home, sees }) => {
      await sees("mkdir project && cd berth")
      await sees(`npm pack --silent ${PACKAGES} --pack-destination ~/project`)
      await sees("cd ~/project && npm init --yes --init-type=module > /dev/null")
      const installed = await sees("npm install --prefer-offline --no-audit --no-fund ./*.tgz")
      expect(installed).toMatch(/added \d+ packages/)
      expect(installed.replaceAll(/^npm warn Unknown user config.*\n/gm, "")).not.toContain("warn")
      writeFileSync(join(home, "project/program.js"), PROGRAM)
      const ends = "succeeded undefined hello\nfailed the command ended with status 3"
      const shown = await sees("node program.js")
      expect(shown).toContain(ends)
      expect(shown).toContain(`"stdout":"from a command\\n"`)
      const old = await sees("node --no-experimental-websocket program.js")
      expect(old).toContain(ends)
      expect(old).toMatch(/"code":"client\.runtime_too_old","hint":"Use Node 22/)

      // The README's repo is at a path of the reader's, and the second block continues the first.
      const text = readmeBlocks("ts").flat().join("\n").replaceAll("/src/app", join(home, "app"))
      writeFileSync(join(home, "project/readme.ts"), text)
      await sees("cp -r ~/my-repo ~/app && berth up ~/my-repo --network none")
      await sees(`${TSC} ~/berth/node_modules/@types readme.ts`)
      expect(await sees("node readme.ts")).toContain("1 passed")
      await sees("berth rm my-repo")
    },
  )
