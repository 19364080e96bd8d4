import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { modelProgram } from "@berth/testing/model/program"
import type { ModelScript } from "@berth/testing/model/script"
import { scriptedConfig } from "@berth/testing/opencode"
import type { Scene } from "./scene.ts"

const COMMAND = `echo "I am $(id -un) of $(hostname), in $(pwd), on branch $(git branch --show-current)"
cat greeting
echo "the host's files: $(cat /etc/shadow 2>&1)"
echo "the network: $(ls /sys/class/net | tr '\\n' ' ')"`

const PROMPT = "Add a line about the weather to the README."

/** The model's port in the sandbox, which has a loopback of its own. */
const MODEL_PORT = 4_199
const CONFIG = JSON.stringify(scriptedConfig(`http://127.0.0.1:${MODEL_PORT}/v1`))

/** The model's answers, instead of thinking. */
const SCRIPT: ModelScript = [
  {
    prompt: PROMPT,
    replies: [
      {
        tool: "bash",
        arguments: { command: "echo 'The weather is fine.' >> README", description: "adds it" },
      },
      { tool: "bash", arguments: { command: "cat README", description: "looks at it" } },
      { text: ["The README ", "speaks of ", "the weather now.\n"] },
    ],
  },
]

/** Starts the model beside the agent. */
const START = `#!/bin/sh
echo the start hook ran >> greeting
PORT=${MODEL_PORT} /opt/berth/bin/node .berth/model.mjs .berth/script.json /tmp/model > /tmp/model.log 2>&1 &
for try in $(seq 100); do [ -s /tmp/model/port ] && exit 0; sleep 0.1; done
cat /tmp/model.log; exit 1
`

export const sampleOf = ({ directory }: Pick<Scene, "directory">): string =>
  join(directory, "sample")

/** A sample repo, with a model that plays a script. */
export const makeSample = async ({ directory }: Scene): Promise<string> =>
  makeRepo(sampleOf({ directory }), {
    README: "A sample.\n",
    ".gitignore": "greeting\n",
    ".berth/setup.sh": "#!/bin/sh\necho hello > greeting\n",
    ".berth/start.sh": START,
    ".berth/model.mjs": await modelProgram(),
    ".berth/script.json": JSON.stringify(SCRIPT),
  })

/** Boots a sandbox from the sample and runs a command as a prompt. Returns the boot and the output. */
export const runCommand = async (scene: Scene, sample: string): Promise<string> => {
  const { berth, defer } = scene
  defer(() => removeSandboxes(scene))
  const output = await berth(["run", "--network", "none", COMMAND], { cwd: sample })
  return `${await berth(["boot"])}${output}`
}

/**
 * Runs a prompt with another agent: the workspace's sandbox is replaced, its files stay. Returns the agent's text and
 * the diff.
 */
export const runAgent = async (scene: Scene, sample: string): Promise<string> => {
  const given = ["--agent", "opencode", "--env", `OPENCODE_CONFIG_CONTENT=${CONFIG}`]
  const output = await scene.berth(["run", ...given, PROMPT], { cwd: sample })
  await removeSandboxes(scene)
  return output
}

const cleaned = new WeakSet<Scene>()

/** Removes the sandboxes, while there is a server to ask. May be called twice. */
const removeSandboxes = async (scene: Scene): Promise<void> => {
  if (cleaned.has(scene)) return
  cleaned.add(scene)
  const { sandboxes } = JSON.parse(await scene.berth(["ps", "--json"])) as {
    sandboxes: { identity: { sandbox: string } }[]
  }
  for (const { identity } of sandboxes) await scene.berth(["rm", "--force", identity.sandbox])
}

const makeRepo = (path: string, files: Readonly<Record<string, string>>): string => {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), text)
  }
  const who = ["-c", "user.name=demo", "-c", "user.email=demo@example.com"]
  for (const args of [
    ["init", "-qb", "main"],
    ["add", "."],
    [...who, "commit", "-qm", "Sample"],
  ])
    execFileSync("git", ["-C", path, ...args], { stdio: "ignore" })
  return path
}
