import { execFileSync } from "node:child_process"
import { chmodSync, cpSync, mkdirSync } from "node:fs"
import { dirname, join } from "node:path"
import type { SandboxId } from "@berth/protocol/ids"
import { sampledCases } from "@berth/testing/sampled-cases"
import { beforeAll, describe, expect, it } from "vitest"
import { type BackendName, drawnOn } from "../backends.ts"
import type { Stage } from "./stage.ts"

/** Sandboxes boot beside other tests. */
const DEADLINE_MS = 120_000

/** The differences between the caches of backends. */
export interface CacheBackend {
  readonly name: BackendName
  /** Puts something in the place of the cache for go of a workspace; gives the words of the warning, and how to take it away. */
  readonly obstruct: (workspace: string) => Promise<{ words: string; clear: () => unknown }>
  /** Where a cache lies on the host, if its files can be put there. */
  readonly onHost?: (workspace: string, cache: string) => string
}

export const describeCaches = (staged: () => Stage, { name, obstruct, onHost }: CacheBackend) =>
  describe("the caches of a workspace", () => {
    let stage: Stage
    beforeAll(() => {
      stage = staged()
    })
    const { signal } = new AbortController()
    const warningsOf = async (sandbox: SandboxId) =>
      (await stage.sandboxes.views.get(sandbox, signal)).warnings

    const fillByTools = async (toolsOnHost: string) => {
      const spec = { slug: "app", caches: ["npm", "pip", "cargo", "go", "apt"] as const }
      // The system inside has no pip of its own.
      bringPip(toolsOnHost)
      const first = await stage.up({ ...spec, caches: [...spec.caches] })
      expect(await warningsOf(first)).toEqual([])
      await stage.run(first, FILL)
      expect(await stage.run(first, "stat -c %U ~/.cargo ~/.cargo/registry")).toBe("agent\nagent\n")
      await stage.sandboxes.requests.stop(first, { force: true })

      const second = await stage.up({ ...spec, caches: [...spec.caches] })
      expect(second).not.toBe(first)
      const said = await stage.run(second, LOOK)
      expect(said).toMatch(/tarball.*small-1\.0\.0\.tgz/)
      expect(said).toContain("pk-1.0-py3-none-any.whl")
      expect(said).toContain("a crate\na module\na package\n")

      await stage.sandboxes.requests.remove(second, { force: true })
      const left = (await stage.backend.listCaches()).map(({ workspace }): string => workspace)
      expect(left).not.toContain("app")
    }
    if (onHost !== undefined)
      it(
        "[R1.13] are found and filled by npm and pip, take files at the places of cargo, go and apt, the next sandbox has them, and they go with the workspace",
        () => fillByTools(join(onHost("app", "pip"), "tool")),
        DEADLINE_MS,
      )

    sampledCases(
      "further cases of caches",
      1,
      (it) => {
        it("[R1.13] are left out, one by one, with a warning in the system's words", async () => {
          const { words, clear } = await obstruct("half")
          const without = await stage.up({ slug: "half", caches: ["npm", "go"] })
          const warning = expect.stringMatching(new RegExp(`^it has no cache for go: .*${words}`))
          expect(await warningsOf(without)).toEqual([warning])
          expect(stage.memoryOf(without).events.map(({ body }) => body)).toContainEqual({
            type: "warning",
            message: warning,
          })
          const logged = stage.lines.filter((line) => line.includes("it has no cache for go"))
          expect(logged.map((line) => JSON.parse(line).sandbox)).toEqual([without])
          const told =
            'echo "$npm_config_cache,$GOCACHE"; touch "$npm_config_cache/x"; mount | grep -c /berth/go || true'
          expect(await stage.run(without, told)).toBe("/var/cache/berth/npm,\n0\n")

          // The sandbox is current all the same, so nothing replaces it.
          expect(await stage.up({ slug: "half", caches: ["npm", "go"] })).toBe(without)
          await clear()
          await stage.sandboxes.requests.stop(without, { force: true })
          const whole = await stage.up({ slug: "half", caches: ["go", "npm"] })
          expect(await warningsOf(whole)).toEqual([])
          const hashes = [without, whole].map(
            async (sandbox) =>
              (await stage.sandboxes.views.get(sandbox, signal)).identity.configHash,
          )
          expect(new Set(await Promise.all(hashes)).size).toBe(1)
        })

        it("[R1.13] are left out where the workspace's own files are in the way, which stay as they are", async () => {
          const plain = await stage.up({ slug: "links" })
          await stage.run(
            plain,
            "mkdir elsewhere; ln -s /workspace/elsewhere ~/.cargo; mkdir ~/x; rm -r ~/x",
          )
          const without = await stage.up({ slug: "links", caches: ["cargo"] })
          expect(await warningsOf(without)).toEqual([
            "it has no cache for cargo: .cargo is no directory",
          ])
          expect(await stage.run(without, "readlink ~/.cargo; ls elsewhere")).toBe(
            "/workspace/elsewhere\n",
          )
        })
      },
      drawnOn(name),
    )
  })

/**
 * npm and pip put a package into their caches; the other tools are not there, so a file stands for theirs. No tool
 * reaches a network.
 */
const FILL = `
set -e
mkdir package
echo '{"name":"small","version":"1.0.0"}' > package/package.json
tar czf small-1.0.0.tgz package
npm cache add ./small-1.0.0.tgz
mkdir -p sdist/pk-1.0 && cd sdist
printf 'Metadata-Version: 2.1\\nName: pk\\nVersion: 1.0\\n' > pk-1.0/PKG-INFO
printf '[build-system]\\nrequires = []\\nbuild-backend = "backend"\\nbackend-path = ["."]\\n' > pk-1.0/pyproject.toml
cat > pk-1.0/backend.py <<'END'
import os, zipfile
NAME = "pk-1.0-py3-none-any.whl"
FILES = {
  "METADATA": "Metadata-Version: 2.1\\nName: pk\\nVersion: 1.0\\n",
  "WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
  "RECORD": "",
}
def build_wheel(directory, *_):
  with zipfile.ZipFile(os.path.join(directory, NAME), "w") as wheel:
    for name, text in FILES.items(): wheel.writestr("pk-1.0.dist-info/" + name, text)
  return NAME
END
tar czf pk-1.0.tar.gz pk-1.0 && rm -r pk-1.0
PYTHONPATH=$PIP_CACHE_DIR/tool python3 -m pip wheel --no-index --no-build-isolation --find-links . -w out pk
echo "a crate" > ~/.cargo/registry/crate
mkdir -p "$GOMODCACHE" && echo "a module" > "$GOMODCACHE/module"
echo "a package" > /var/cache/apt/archives/package
`

const LOOK = `
npm cache ls
PYTHONPATH=$PIP_CACHE_DIR/tool python3 -m pip cache list --format=abspath
cat ~/.cargo/registry/crate "$GOMODCACHE/module" /var/cache/apt/archives/package
`

/** Copies the host's pip, which is Python alone. */
const bringPip = (to: string): void => {
  const where = "import os, pip; print(os.path.dirname(pip.__file__))"
  const from = execFileSync("python3", ["-c", where], { encoding: "utf8" }).trim()
  mkdirSync(to, { recursive: true })
  cpSync(from, join(to, "pip"), { recursive: true })
  chmodSync(dirname(to), 0o755)
}
