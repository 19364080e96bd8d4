import type { StackKey } from "@berth/protocol/layer"
import type { Layers } from "../layers.ts"
import { workAndFreeze } from "./store.ts"

/** Three layers that delete, replace and move what lies below them, in every way that an overlay marks. */
const STEPS = [
  `
mkdir -p keep gone swapped/inner moved/deep to-file
echo a > keep/a; echo b > keep/b
echo x > gone/x
echo old > swapped/old; echo older > swapped/inner/older
echo deep > moved/deep/file
echo f > to-dir; echo child > to-file/child
echo one > name1; ln name1 name2
echo pair > pair1; ln pair1 pair2
truncate -s 5M holes; printf end | dd of=holes bs=1 seek=3000000 conv=notrunc status=none
mkfifo pipe
ln -s /etc/passwd absolute; ln -s ../../outside up
echo secret > nobody; chmod 000 nobody
mkdir shut; echo s > shut/s; chmod 000 shut
touch "$(printf 'caf\\351 \\\\ : , %s' 'x y')"
chmod 2775 keep; touch -d '2001-02-03 04:05:06.123456789' keep/b
`,
  `
rm -r gone
rm -r swapped; mkdir swapped; echo new > swapped/new
mv moved moved-away
rm to-dir; mkdir to-dir; echo in > to-dir/in
rm -r to-file; echo f > to-file
rm keep/a
echo changed >> name1
mkfifo swapped/pipe
`,
  `
mv moved-away/deep elsewhere
mkdir gone; echo back > gone/y
rm -r to-dir
mv keep kept; echo c > kept/c
mkdir -p very/deep/tree; mv elsewhere very/deep/tree/there
`,
] as const

export const makeScenario = async (layers: Layers, stack: StackKey): Promise<void> => {
  await layers.put(stack, null)
  for (const step of STEPS) await workAndFreeze(layers, stack, step)
}
