//! Made-up source trees, the same each time.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// Stands in one file of every tree.
pub(crate) const RARE: &str = "needle_in_the_haystack";

/// Writes `files` source files, forty to a folder, one of them with [`RARE`] in it.
pub(crate) fn make(root: &Path, files: usize) -> Result<()> {
    fs::write(root.join(".gitignore"), "target/\n*.log\n")?;
    for number in 0..files {
        let folder = root.join(format!("src/part{}/module{}", number / 1600, number / 40));
        if number % 40 == 0 {
            fs::create_dir_all(&folder)?;
        }
        let extension = ["rs", "py", "ts", "md"][number % 4];
        fs::write(folder.join(format!("file{number}.{extension}")), text(number, number == files / 2))?;
    }
    Ok(())
}

fn text(number: usize, rare: bool) -> String {
    let mut text = String::new();
    for line in 0..30 {
        text.push_str(&format!(
            "    let value_{line} = compute(input_{}, {});\n",
            (number * 7 + line) % 101,
            line * number
        ));
    }
    if rare {
        text.push_str(RARE);
        text.push('\n');
    }
    text
}
