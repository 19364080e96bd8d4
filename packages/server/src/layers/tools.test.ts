import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import type { Layers } from "./layers.ts"
import { AGENT } from "./testing/ids.ts"
import { key } from "./testing/key.ts"
import { HOST_ROOT, inMount } from "./testing/mount.ts"
import { makeRoot, openForTest } from "./testing/store.ts"

const shop = key("shop")

/** Some tools are where only the host's root can read them; what they do to files is the same. */
const run = async (layers: Layers, script: string, owner?: number): Promise<string> => {
  await layers.ensureTop(shop, AGENT)
  const sandbox = newId.sandbox()
  const { top, mount } = await layers.claimTop(shop, sandbox)
  const said = await inMount(mount, script, owner)
  await layers.releaseTop(top, sandbox)
  await layers.freeze(shop)
  return said
}

const has = (tool: string): boolean => spawnSync(tool, ["--version"]).status === 0

/** Each stage finds what the one before made in a lower layer. */
const inStages = async (stages: readonly string[], owner?: number): Promise<string> => {
  const layers = await openForTest()
  await layers.put(shop, null)
  let said = ""
  for (const stage of stages) said = await run(layers, stage, owner)
  expect(await layers.verify()).toMatchObject({ problems: [] })
  return said
}

/** A package of npm's in two versions, of which the second removes, adds and turns a file into a directory. */
const packages = (): string => {
  const root = makeRoot()
  for (const version of ["1", "2"]) {
    const source = join(root, "package")
    mkdirSync(join(source, "lib", `only${version}`), { recursive: true })
    writeFileSync(join(source, "lib", `only${version}`, "x.js"), "")
    if (version === "1") writeFileSync(join(source, "turns"), "")
    else {
      mkdirSync(join(source, "turns"))
      writeFileSync(join(source, "turns", "in.js"), "")
    }
    writeFileSync(join(source, "index.js"), `module.exports = ${version}`)
    writeFileSync(
      join(source, "package.json"),
      JSON.stringify({ name: "p", version: `${version}.0.0` }),
    )
    execFileSync("tar", ["-C", root, "-czf", join(root, `p${version}.tgz`), "package"])
    rmSync(source, { recursive: true })
  }
  execFileSync("chmod", ["-R", "a+rX", root])
  return root
}

requires("root").describe("on files that lie in lower layers", () => {
  it("directories and files are renamed, replaced and removed as on a plain disk", async () => {
    const said = await inStages([
      "mkdir -p a/b/c d; echo 1 > a/b/c/f; echo 2 > d/g; echo 3 > file; ln -s a link",
      "mv a a2; mv a2/b moved; mv moved/c a2/c; mv d a2/d",
      "mkdir a; mv a2/c/f a/f; rmdir a2/c; mv a2/d/g a2/d/h; rm file; mkdir file; touch file/in; mv file file2",
      "mv a2 a3; rm -r a3/d; mkdir a3/d; touch a3/d/new; mv -T a3/d link2; ln a/f hard; mv hard a3/hard; rm link; mkdir link",
      "find . -mindepth 1 | LC_ALL=C sort; cat a/f a3/hard",
    ])
    expect(said).toBe(
      "./a\n./a/f\n./a3\n./a3/hard\n./file2\n./file2/in\n./link\n./link2\n./link2/new\n./moved\n1\n1\n",
    )
  })

  it("git moves, switches, cleans, collects its garbage and finds nothing damaged", async () => {
    const git = "git -c user.name=n -c user.email=n@example.org -c init.defaultBranch=main"
    const said = await inStages([
      `mkdir -p repo/dir/sub; cd repo; ${git} init -q; for i in 1 2 3; do echo $i > dir/sub/f$i; done; git add .; ${git} commit -qm one; git branch old`,
      `cd repo; git mv dir moved; ${git} commit -qm two; git switch -q old; git switch -q main; git gc -q; git worktree add -q ../tree old`,
      `cd repo; echo dirty > moved/sub/f1; ${git} stash -q; git mv moved again; ${git} commit -qm three; git worktree remove ../tree; mkdir junk; touch junk/x; git clean -fdxq; git repack -adq`,
      "mv repo renamed; cd renamed; git status --porcelain; git fsck --strict 2>&1 | grep -v dangling || true; git stash list | wc -l; ls; ls again/sub",
    ])
    expect(said).toBe("1\nagain\nf1\nf2\nf3\n")
  })

  it("npm installs, upgrades, reinstalls and removes", async () => {
    const source = packages()
    const npm = "npm --offline --no-audit --no-fund --no-update-notifier --cache .npm"
    const said = await inStages([
      `mkdir app; cd app; echo '{"name":"app"}' > package.json; ${npm} install ${source}/p1.tgz; ls node_modules/p/lib`,
      `cd app; ${npm} install ${source}/p2.tgz; node -p 'require("p")'; ls node_modules/p/lib; test -d node_modules/p/turns`,
      `cd app; mv node_modules aside; mv aside node_modules; ${npm} ci; ls node_modules/p/lib`,
      `cd app; rm -rf node_modules; ${npm} install; node -p 'require("p")'; ${npm} uninstall p; test ! -e node_modules/p; echo gone`,
    ])
    expect(said).toMatch(/^2$/m)
    expect(said).toMatch(/gone\n$/)
  })

  if (has("python3")) {
    it("python makes, renames, clears and upgrades its environments", async () => {
      const said = await inStages(
        [
          "python3 -m venv --without-pip venv; mkdir -p venv/lib/pkg/sub; touch venv/lib/pkg/sub/x",
          'python3 -c \'import os; os.rename("venv/lib/pkg", "venv/lib/pkg-old")\'; python3 -c \'import shutil; shutil.rmtree("venv/lib/pkg-old")\'; mkdir venv/lib/pkg; touch venv/lib/pkg/new',
          "python3 -m venv --without-pip --clear venv; mv venv venv2; python3 -m venv --without-pip --upgrade venv2; venv2/bin/python -c 'print(6 * 7)'; test ! -e venv2/lib/pkg",
        ],
        HOST_ROOT,
      )
      expect(said).toBe("42\n")
    })
  }

  if (has("cargo")) {
    it("cargo builds, rebuilds and cleans", async () => {
      const cargo = "HOME=$OLD_HOME cargo"
      const said = await inStages(
        [
          `mkdir -p app/src; cd app; printf '[package]\\nname="app"\\nversion="0.1.0"\\nedition="2021"\\n' > Cargo.toml; echo 'fn main(){println!("one")}' > src/main.rs; ${cargo} build -q --offline`,
          `cd app; echo 'fn main(){println!("two")}' > src/main.rs; ${cargo} run -q --offline; mv target aside; mv aside target`,
          `cd app; ${cargo} clean -q; ${cargo} run -q --offline`,
        ],
        HOST_ROOT,
      )
      expect(said).toBe("two\n")
    })
  }
})
