import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { modelProgram } from "@berth/testing/model/program"
import type { ModelScript } from "@berth/testing/model/script"
import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { afterAll, beforeAll, expect, it } from "vitest"
import { makeRepo } from "../boot/stage.ts"
import { giveToolbox } from "../toolboxes/give.ts"
import { type Meanwhile, sitAtBash } from "./person.ts"
import { readmeBlocks } from "./readme-blocks.ts"
import { keepScreen } from "./screens.ts"

const ROOT = join(import.meta.dirname, "../..")
const [DEMO = [], TESTS = [], PATH = [], USE = [], PROMPTS = []] = readmeBlocks("sh")

/** Covers boots, starts of agents and the making of two toolboxes, beside other tests. */
const DEADLINE_MS = 180_000

const MODEL_PORT = 4_199
const MODEL = `http://127.0.0.1:${MODEL_PORT}`
const SCRIPT: ModelScript = [
  { prompt: "fix the failing test", replies: [{ text: ["The test is fixed."] }] },
  { prompt: "and now the docs", replies: [{ text: ["The docs are done."] }] },
]

/** A repo with a test, a report, a page on port 3000, and a model for the agents, as a start hook starts them. */
const repoFiles = async () => ({
  "package.json": JSON.stringify({ name: "my-repo", scripts: { test: "node test.js" } }),
  "test.js": `require("node:fs").writeFileSync("report.html", "<p>all well</p>"); console.log("1 passed")`,
  "page.js": `require("node:http").createServer((_, answer) => answer.end("a page")).listen(3000)`,
  "model-server.mjs": await modelProgram(),
  "script.json": JSON.stringify(SCRIPT),
  ".gitignore": "report.html\n",
  ".berth/start.sh": `node page.js > /dev/null 2>&1 &
PORT=${MODEL_PORT} node model-server.mjs script.json /tmp/asked > /dev/null 2>&1 &
until curl -s ${MODEL} > /dev/null; do sleep 0.05; done\n`,
})

/** Settings that lead the agents to that model: a company that has a gateway for models does the same. */
const GATEWAY = [
  `ANTHROPIC_BASE_URL=${MODEL}`,
  `OPENAI_BASE_URL=${MODEL}/v1`,
  `OPENCODE_CONFIG_CONTENT=${JSON.stringify({ provider: { anthropic: { options: { baseURL: `${MODEL}/v1` } } } })}`,
]

/** Lines that run an agent with a model, each of which takes a toolbox or a boot of its own. */
const ofAgent = (line: string) => line.startsWith("berth run --agent")
const AGENTS = sampled("agents of the README's prompts", PROMPTS.filter(ofAgent), 1)
const DRAWN = PROMPTS.filter((line) => !ofAgent(line) || AGENTS.includes(line))

const CTRL_C = "\x03"

/** Commands that last until the person ends them, and the person's acts meanwhile. */
const MEANWHILE: readonly (readonly [RegExp, Meanwhile])[] = [
  [
    /^berth shell /,
    async ({ type, see }) => {
      await see(/[$#] $/)
      type("exit\n")
    },
  ],
  [
    /^berth port-forward /,
    async ({ type, see }) => {
      await see(/127\.0\.0\.1:3000/)
      expect(await (await fetch("http://127.0.0.1:3000")).text()).toBe("a page")
      type(CTRL_C)
    },
  ],
  [
    /^berth log .* --follow/,
    async ({ type, see }) => {
      await see(/> and now the docs.*\(succeeded\)/s)
      type(CTRL_C)
    },
  ],
]

/** The statuses of a command that a person ends by Ctrl-C: it ends in order, or by the signal. */
const ENDS_WELL = new Set([0, 130])

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("the README", () => {
  let base = ""
  let takeToolbox = async () => {}
  let person: ReturnType<typeof sitAtBash>
  beforeAll(async () => {
    base = mkdtempSync(join(tmpdir(), "berth-readme-"))
    const dataDir = join(base, "data")
    for (const directory of ["data", "home", "checkout", "checkout/bin"])
      mkdirSync(join(base, directory), { mode: 0o711 })
    // This folder stands in for the checkout, and keeps the files of the commands out of it.
    symlinkSync(join(ROOT, "bin/berth"), join(base, "checkout/bin/berth"))
    takeToolbox = await giveToolbox(dataDir)
    makeRepo(join(base, "checkout/my-repo"), await repoFiles())
    const keys = "ANTHROPIC_API_KEY=sk-ant-0\nOPENAI_API_KEY=sk-0\n"
    writeFileSync(join(dataDir, "keys.env"), keys, { mode: 0o600 })
    person = sitAtBash({
      PATH: process.env.PATH,
      HOME: join(base, "home"),
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      BERTH_DATA_DIR: dataDir,
      BERTH_PORT: "0",
    })
    await run(`stty cols 250; cd ${base}/checkout`)
  }, DEADLINE_MS)
  afterAll(async () => {
    keepScreen("readme", person.screen())
    await person?.run("berth rm --all --force")
    await person?.run("kill %1; wait")
    await person?.close()
    await takeToolbox()
    rmSync(base, { recursive: true, force: true })
  }, DEADLINE_MS)

  const run = async (line: string) => {
    const meanwhile = MEANWHILE.find(([command]) => command.test(line))?.[1]
    const status = await person.run(line, meanwhile)
    const isWell = meanwhile === undefined ? status === 0 : ENDS_WELL.has(status)
    expect(isWell, `${line}\n${person.screen()}`).toBe(true)
  }
  const runAll = async (lines: readonly string[]) => {
    for (const line of lines) await run(line)
  }

  it("begins with the demo and the tests, which other tests run", () => {
    expect([DEMO, TESTS]).toEqual([["npm install && npm run demo"], ["npm install && npm test"]])
    expect(readmeBlocks("sh")).toHaveLength(5)
    expect(PROMPTS.filter(ofAgent)).toHaveLength(3)
  })

  it(
    "has commands for a sandbox that work as they are printed, one after another",
    async () => {
      await runAll([...PATH, ...USE])
      expect(readFileSync(join(base, "checkout/report.html"), "utf8")).toBe("<p>all well</p>")
      expect(person.screen()).toMatch(/1 passed.*my-repo +ready/s)
    },
    DEADLINE_MS,
  )

  it(
    "has commands for prompts that work as they are printed, one after another",
    async () => {
      const variables = GATEWAY.map((variable) => `--env '${variable}'`).join(" ")
      await run(`berth up ./my-repo --network none ${variables}`)
      await runAll(DRAWN)
      // Codex, where it has to ask, gives its model no tools, and the scripted model takes that for a question for a title.
      const fixed = AGENTS.filter((line) => !line.includes("codex"))
      // The log repeats the text.
      const [shown = ""] = person.screen().split("berth log my-repo")
      expect(shown.match(/^The test is fixed\.$/gm) ?? []).toHaveLength(fixed.length)
      expect(shown.match(/^succeeded$/gm)).toHaveLength(AGENTS.length + 2)
    },
    DEADLINE_MS,
  )
})
