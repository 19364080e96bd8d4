import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { modelProgram } from "@berth/testing/model/program"
import type { ModelScript } from "@berth/testing/model/script"
import { scriptedConfig } from "@berth/testing/opencode"
import { expect } from "vitest"
import { makeRepo } from "../../boot/stage.ts"
import { CTRL_C, type Machine } from "../newcomer.ts"

const MODEL_PORT = 4_199
const MODEL = `http://127.0.0.1:${MODEL_PORT}`

const making = (file: string): ModelScript[number] => ({
  prompt: `make ${file}`,
  replies: [
    { tool: "bash", arguments: { command: `touch ${file}`, description: `makes ${file}` } },
    { text: ["That was all."] },
  ],
})
const SCRIPT: ModelScript = [making("one.txt"), making("two.txt"), making("three.txt")]

const START = `PORT=${MODEL_PORT} node model-server.mjs script.json /tmp/asked > /dev/null 2>&1 &
until curl -s ${MODEL} > /dev/null; do sleep 0.05; done\n`

/** The real OpenCode with its defaults, which asks for nothing by itself. */
export const permissions = ({ journey, furtherJourney }: Machine): void => {
  journey(
    "waiting-question",
    "sees in sessions, ps and log that an agent waits for permission, answers later, and stops a prompt that waits",
    async ({ home, dataDir, sees }) => {
      makeRepo(join(home, "asks"), {
        "model-server.mjs": await modelProgram(),
        "script.json": JSON.stringify(SCRIPT),
        ".berth/start.sh": START,
      })
      writeFileSync(join(dataDir, "keys.env"), "SCRIPTED_KEY=sk-0\n", { mode: 0o600 })
      const config = JSON.stringify(scriptedConfig(`${MODEL}/v1`, "{env:SCRIPTED_KEY}"))
      await sees("cd asks")
      const flags = `--agent opencode --key SCRIPTED_KEY --permissions ask --network none --env 'OPENCODE_CONFIG_CONTENT=${config}'`
      const session = await sees(`berth run ${flags} --detach "make one.txt"`)
      const waits = /the agent waits for permission, since \d+ m?s: .*touch one\.txt/
      await sees("berth log asks --follow", {
        meanwhile: async ({ type, see }) => {
          await see(/permission|may the agent/)
          type(CTRL_C)
        },
      })
      expect(await sees("berth sessions")).toMatch(waits)
      expect(await sees("berth ps")).toMatch(waits)
      const log = await sees("berth log asks")
      expect(log).toMatch(waits)
      expect(log).toContain(`to answer: berth answer ${session} --allow`)
      await sees("berth answer asks --allow")
      const watched = await sees(`berth run --session asks "make two.txt"`, {
        meanwhile: async ({ type, see }) => {
          await see(/touch two\.txt.*allow\? \[y\/N\] $/s)
          type("n\n")
        },
      })
      expect(watched).toContain("one.txt")
      expect(watched).not.toContain("b/two.txt")
      await sees(`berth run --session asks --detach "make three.txt"`)
      await sees("until berth ps | grep -q 'permission, since .*touch three'; do sleep 0.1; done")
      expect(await sees("berth stop --prompt asks")).toMatch(/^pr-\w+$/)
      await sees("until berth log asks | grep -q '^(stopped'; do sleep 0.1; done")
      expect(await sees("berth ps")).not.toContain("waits for permission")
      expect(await sees("berth log asks")).toMatch(/make three\.txt.*\n\(stopped\b[^\n]*\)$/s)
      expect(await sees("berth exec asks -- sh -c 'ls *.txt'")).toBe("one.txt")
    },
  )

  // This takes two more boots of OpenCode, whose permissions are also tested beside its agent.
  furtherJourney("deny", "keeps OpenCode from acting with --permissions deny", async ({ sees }) => {
    await sees("cd asks")
    const held = await sees(`berth run --permissions deny "make two.txt"`)
    expect(held).toMatch(/^agent: opencode, permissions deny.* \(set for this workspace\)$/m)
    expect(held).toContain("denied")
    expect(await sees("berth exec asks -- sh -c 'ls *.txt'")).toBe("one.txt")
    expect(
      await sees(`berth run --agent acp:some-agent --permissions deny "x"`, { status: 1 }),
    ).toContain("nothing holds it to --permissions deny")
    await sees("berth rm asks")
  })
}
