import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { HOST_ROOT } from "./testing/mount.ts"
import { inStages } from "./testing/stages.ts"

requires("root").describe("on files that lie in lower layers", () => {
  it("mv, rm and mkdir rename, replace and remove directories and files as on a plain disk", async () => {
    const said = await inStages([
      "mkdir -p a/b/c d; echo 1 > a/b/c/f; echo 2 > d/g; echo 3 > file; ln -s a link",
      "mv a a2; mv a2/b moved; mv moved/c a2/c; mv d a2/d",
      "mkdir a; mv a2/c/f a/f; rmdir a2/c; mv a2/d/g a2/d/h; rm file; mkdir file; touch file/in; mv file file2",
      "mv a2 a3; rm -r a3/d; mkdir a3/d; touch a3/d/new; mv -T a3/d link2; ln a/f hard; mv hard a3/hard; rm link; mkdir link",
      "find . -mindepth 1 | LC_ALL=C sort; cat a/f a3/hard",
    ])
    expect(said.at(-1)).toBe(
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
    expect(said.at(-1)).toBe("1\nagain\nf1\nf2\nf3\n")
  })

  requires("cargo").it("cargo builds, rebuilds and cleans", async () => {
    const cargo = "HOME=$OLD_HOME cargo"
    const said = await inStages(
      [
        `mkdir -p app/src; cd app; printf '[package]\\nname="app"\\nversion="0.1.0"\\nedition="2021"\\n' > Cargo.toml; echo 'fn main(){println!("one")}' > src/main.rs; ${cargo} build -q --offline`,
        `cd app; echo 'fn main(){println!("two")}' > src/main.rs; ${cargo} run -q --offline; mv target aside; mv aside target`,
        `cd app; ${cargo} clean -q; ${cargo} run -q --offline`,
      ],
      HOST_ROOT,
    )
    expect(said.at(-1)).toBe("two\n")
  })
})
